// shm: ranks are processes of one machine (or threads). Bytes are copied once, by the sender,
// straight into memory of the receiver.
//
//   put   memcpy into the peer's region, then an entry in the ring to the peer
//   send  the bytes, in an entry of that ring
//   poll  looks at the next word of every ring: no system call
// Set-up, regions and the end of a link: shm_link.h. Rings and sleeping: shm_ring.h.
//
// System calls. While ranks poll there are none, but for one epoll_wait each `check_ms`, which
// finds peers that are gone. arm() sets a flag that the peers see; whoever writes next into a ring
// of this rank then rings its bell. The poll after arm() takes old rings away first and then looks
// at the rings, so that a bell rung later stays readable. The second poll after arm() ends the
// sleep.
//
// A lost peer. Its memory is unmapped here, its rings are forgotten, and a successor gets new ones.
// What cannot be taken away is its own mapping of our regions: a process that was declared lost,
// was only stopped, and wakes in the middle of the copy of a put finishes that copy. It then meets
// the closed socket and does no more. So memory that such a peer could write to must not be used
// again for something else before that process is gone; memory of its successor it has never
// mapped.
//
// fork: descriptors close on exec. A child that does not exec may only destroy the transport: that
// closes its copies and leaves the parent's links alone.
// Thread safety: none; see comm/transport.h.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "comm/transports/shm_callers.h"
#include "comm/transports/shm_link.h"

namespace kinet {

struct ShmSettings {  // comm_param { shm { ... } }
  size_t ring_bytes = 0;
  double check_seconds = 0;
  uint64_t stream_bytes = 0;
};

class Shm : public Transport {
 public:
  explicit Shm(const TransportConfig& config);
  ~Shm() override;
  static TransportType type();

  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override;
  void withdraw(uint64_t key);  // of a region that is destroyed
  std::string offer(Rank peer) override;
  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override;
  void disconnect(Rank peer) override;

  Post send(Rank peer, std::span<const std::byte> message) override;
  Post put(Rank peer, const Put& put) override;
  int poll(EventSink& sink) override;
  int event_fd() const override { return self_.epoll.get(); }
  void arm() override;
  const std::byte* peer_memory(Rank peer, const RemoteRegion& region) override;
  std::shared_ptr<std::byte> share_peer_memory(Rank peer, const RemoteRegion& region) override;

  Capabilities capabilities() const override;
  TransportCounters counters() const override { return counters_; }
  std::string describe(Rank peer, bool verbose) const override;

 private:
  // kArmed: arm() was called; kAsleep: and polled once more, so the caller sleeps or has slept.
  enum class Sleep { kAwake, kArmed, kAsleep };

  // Sending (shm.cc).
  Post busy();
  Post ready(Rank peer, ShmLink* link, size_t payload);
  std::shared_ptr<SharedMemory> find_region(ShmLink& link, const RemoteRegion& wanted);
  void ring(ShmLink& link);

  // Polling (shm_poll.cc).
  bool time_to_check();
  void look_at_descriptors();
  bool handle_ready(ShmReady what, Rank peer);  // true: callers have something to say
  void continue_set_up();
  int poll_link(ShmLink& link, EventSink& sink);
  // Returns the number of events; sets `end` when the peer wrote rubbish.
  int take_entries(ShmLink& link, bool all, EventSink& sink, bool& end);
  void look_for_room();
  void wake();

  int size_;
  double timeout_;
  ShmSettings settings_;
  ShmSelf self_;
  pid_t process_ = getpid();
  std::unique_ptr<ShmCallers> callers_;
  std::vector<std::unique_ptr<ShmLink>> links_, retired_;  // links_: by rank
  std::vector<bool> lost_;                                 // by rank: had a link, has none now
  std::vector<Rank> active_;                               // those that have a link
  int setting_up_ = 0;  // links of which on_connected was not raised yet
  Sleep sleep_ = Sleep::kAwake;
  unsigned polls_ = 0;
  double next_check_ = 0;
  uint64_t last_key_ = 0;
  ShmEntry entry_;
  TransportCounters counters_;
};

}  // namespace kinet
