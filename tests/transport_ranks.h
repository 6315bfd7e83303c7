// Ranks as threads of one test process, over any registered transport.
//
//   run_ranks({"tcp", 4}, [](TestRank& rank) {
//     rank.connect_all();
//     rank.send(rank.next(), bytes_of("hello"));
//     rank.until("the message", [&] { return rank.from(rank.previous()).messages.size() == 1; });
//     rank.barrier("end");
//   });
//
// Every wait polls and has a deadline; when it passes, the watchdog prints the state of every rank
// and all ranks end. The first failure of a rank ends the others too.
// Thread safety: a TestRank belongs to its thread; the RankBoard is shared and locks itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/local_rendezvous.h"
#include "comm/transport.h"
#include "comm/transports/inproc.h"
#include "src/base/shared_memory.h"

namespace kinet {

inline constexpr double kTestDeadline = 60;  // seconds of one wait; ten times what is ever needed

// Registered transports that work here and can run as threads. Prints why others are left out.
std::vector<std::string> runnable_transports();

// The whole of a test's run as the threads share it: who is at which barrier, who waits for what.
class RankBoard {
 public:
  explicit RankBoard(int size) : states_(size) {}

  int arrive(const std::string& barrier);  // returns how many have arrived, this one included
  int arrived(const std::string& barrier);
  void fail(const std::string& why);  // the first one counts
  bool failed() const { return failed_; }
  std::string failure();

  void show(Rank rank, const std::string& state);
  bool wanted() const { return wanted_; }  // somebody's deadline has passed: show your state
  std::string watchdog(Rank caller, const std::string& state);

 private:
  std::mutex mutex_;
  std::map<std::string, int> barriers_;
  std::vector<std::string> states_;
  std::string failure_;
  std::atomic<bool> failed_{false}, wanted_{false};
};

// What a rank has seen of one peer.
struct PeerEvents {
  int connected = 0, lost = 0;
  int after_loss = 0;  // events after on_peer_lost and before the next on_connected: a defect
  std::string why;
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::pair<uint32_t, uint64_t>> arrived;  // notify value and size
  uint64_t completed = 0;
};

// Memory for puts, filled with a pattern, registered. Destroyed before its transport.
class TestRegion {
 public:
  TestRegion(Transport& transport, size_t bytes);

  std::byte* data() { return memory_.data(); }
  size_t bytes() const { return memory_.bytes(); }
  const MemoryRegion& registered() const { return *region_; }

 private:
  SharedMemory memory_;
  std::unique_ptr<MemoryRegion> region_;
};

struct RankRun {
  std::string transport;
  int size = 2;
  double timeout = 30;    // of TransportConfig
  const char* comm = "";  // comm_param of the transport as text: "streams: 2"
};

class TestRank : public EventSink {
 public:
  TestRank(const RankRun& run, Rank rank, RankBoard& board, std::shared_ptr<LocalStore> store,
           Runtime runtime);
  ~TestRank() override;

  Rank rank() const { return world_.rank; }
  int size() const { return world_.size; }
  Rank next() const { return (rank() + 1) % size(); }
  Rank previous() const { return (rank() + size() - 1) % size(); }
  bool last() const { return rank() == size() - 1; }
  std::vector<Rank> others() const;
  Transport& transport() { return *transport_; }
  PeerEvents& from(Rank peer) { return peers_[peer]; }

  // Exchange offers and connect; returns when the links are up.
  void connect_all();
  void publish_offer(Rank peer);  // the first half of a link
  void take_offer(Rank peer);     // the second: connect() with what the peer has published
  void start_connect(Rank peer);  // both, does not wait
  void wait_connected(Rank peer);

  // This rank dies as a process does: regions and transport are gone, its place is free.
  void die();
  // A successor takes its place: a new incarnation and a new transport. REQUIRES: die() before.
  void rise();

  // On the others: forget what was seen of `peer`; its successor may be connected.
  void expect_successor(Rank peer);

  // Regions by name; the description of a peer's region travels through the store.
  TestRegion& region(const std::string& name, size_t bytes);
  RemoteRegion remote(Rank peer, const std::string& name);

  // Post and poll until accepted.
  void send(Rank peer, const std::vector<std::byte>& message);
  void put(Rank peer, const Put& put);

  int poll();  // once, counting events
  void until(const std::string& what, const std::function<bool()>& done,
             double seconds = kTestDeadline);
  void poll_for(double seconds);                         // to see that nothing more happens
  void barrier(const std::string& name, int count = 0);  // polls meanwhile; 0: all ranks
  void arrive(const std::string& name) { board_.arrive(name); }
  bool all_at(const std::string& name, int count) { return board_.arrived(name) >= count; }
  void wait_idle(const std::string& name, int count);  // without polling
  void sleep_until_event();  // as the contract says: arm, poll, poll(2) on event_fd

  void on_connected(Rank peer) override;
  void on_message(Rank from, std::span<const std::byte> message) override;
  void on_put_arrived(Rank from, uint32_t notify, uint64_t bytes) override;
  void on_puts_completed(Rank to, uint64_t count) override;
  void on_peer_lost(Rank peer, const std::string& why) override;

  // Called first by the handlers above: to look at memory at the very moment.
  std::function<void(Rank, uint32_t, uint64_t)> when_put_arrived;
  std::function<void(Rank, std::span<const std::byte>)> when_message;

 private:
  void join();
  void make_transport();
  std::string state(const std::string& what) const;
  PeerEvents& event_of(Rank peer);
  void check_board(const std::string& what, double deadline);

  const RankRun run_;
  RankBoard& board_;
  std::shared_ptr<LocalStore> store_;
  Runtime runtime_;
  std::unique_ptr<LocalRendezvous> rendezvous_;
  World world_;
  std::unique_ptr<ParamNode> params_;
  std::unique_ptr<Transport> transport_;
  std::map<std::string, TestRegion> regions_;
  std::vector<PeerEvents> peers_;
};

// Runs `body` in a thread a rank and waits for all; a failure of any rank fails the test.
void run_ranks(const RankRun& run, const std::function<void(TestRank&)>& body);

}  // namespace kinet
