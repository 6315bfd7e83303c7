// One link of transport shm: the socket, the two rings and the mapped regions of one peer.
//
//   dialer (lower rank)                    listener (higher rank)
//   connects, sends hello {ring, bell} ->  checks token, rank, incarnation; maps the ring
//   maps the ring, link is up          <-  hello {ring, bell}, then its regions; link is up
//   sends its regions                  ->  maps them
// From then on a region is announced when it is registered. Keys of a rank only grow, and its
// newest key stands in the memory of the ring that it receives in; so whoever meets a key that it
// has not got yet can tell one that is still on its way (key <= newest) from a false one.
//
// End: EOF of the socket, or the end of the process at its other end (a pidfd: a forked child of
// the peer may still hold the socket). Entries that are in the ring by then are still raised: they
// were sent while the peer was well. Thread safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "comm/transports/shm_ring.h"
#include "comm/transports/shm_socket.h"

namespace kinet {

// What the links of one rank share; the transport owns it.
struct ShmSelf {
  Rank rank = 0;
  uint32_t incarnation = 0;
  std::string token;
  size_t ring_bytes = 0;
  ShmFd bell, epoll;
  std::map<uint64_t, MemoryBlock> regions;  // by key
};

// Data of the epoll instance: what is ready, and of whom.
enum class ShmReady : uint32_t { kBell, kListener, kCaller, kLink, kProcess };
bool shm_watch(const ShmSelf& self, int fd, ShmReady what, Rank peer);

class ShmLink {
 public:
  // `name`: the socket to dial; empty when the peer dials.
  ShmLink(const ShmSelf& self, Rank peer, uint32_t incarnation, std::string name, double deadline);

  void dial();                                   // once more, until it is connected
  void adopt(ShmFd socket, ShmReceived& hello);  // of a peer that has dialed this rank
  void read_socket();
  void announce(ShmPacket::Kind kind, uint64_t key);
  void flush();  // announcements that the socket had no room for
  void end(const std::string& why);
  void close();  // the peer sees the end at once, whoever else holds the socket
  bool ring_bell() const;

  // The mapped region, or nullptr; then `key_is_false` tells whether it can still come.
  std::shared_ptr<SharedMemory> region(uint64_t key) const;
  bool key_is_false(uint64_t key) const;

  Rank peer() const { return peer_; }
  uint32_t incarnation() const { return incarnation_; }
  bool awaits_call() const { return name_.empty() && !socket_; }
  bool setting_up() const { return !up_ && why_.empty(); }
  bool up() const { return up_ && why_.empty(); }
  bool came_up() const { return up_; }  // it may have ended since
  bool ended() const { return !why_.empty(); }
  const std::string& why() const { return why_; }
  double deadline() const { return deadline_; }
  ShmInbox& inbox() { return inbox_; }
  ShmOutbox& outbox() { return *outbox_; }
  bool opened() const { return outbox_ != nullptr; }

  bool reported_up = false;  // on_connected was raised
  bool closed = false;       // by disconnect(), in a handler maybe
  bool starved = false;      // the last send or put found no room
  uint64_t completed = 0;    // puts not yet reported

 private:
  void watch_socket();
  void send_hello();
  void open(ShmReceived& hello);
  void take_region(ShmReceived& received);
  void handle(ShmReceived& received);
  ShmPacket packet(ShmPacket::Kind kind, uint64_t key, uint64_t value) const;

  const ShmSelf& self_;
  Rank peer_;
  uint32_t incarnation_;
  std::string name_;
  double deadline_;
  std::string why_;
  bool up_ = false;
  ShmInbox inbox_;
  std::unique_ptr<ShmOutbox> outbox_;
  ShmFd socket_, bell_, process_;
  std::map<uint64_t, std::shared_ptr<SharedMemory>> regions_;
  uint64_t last_announced_ = 0;
  std::deque<ShmPacket> unsent_;
  bool waits_to_write_ = false;
};

}  // namespace kinet
