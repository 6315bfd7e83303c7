// One direction of a shm link: a lock-free ring of entries with one producer and one consumer,
// which are as a rule different processes. The consumer makes the memory; the producer maps it.
//
//   | head | sleeping | wants_room | last_key |  cell | cell | ... | cell |     64 bytes each
//
// An entry takes whole cells. It begins with a 64-bit word that is never 0, payload behind it:
//   word = mark (8 bits) | kind (8) | payload bytes (16) | notify (32, of a put)
// The producer writes the payload, then the word; the consumer looks at the word of the next cell
// (so a short entry costs one cache line to hand over, and no counter is read), takes the entry,
// sets the first word of each of its cells to 0, then moves `head` on.
// Invariant: cells from the end of the last entry up to head + capacity have a first word of 0.
//
// Sleeping. Each side writes its own word, then reads the other's, both sequentially consistent:
//   producer   P1 word of the entry := w      consumer   C1 sleeping := 1
//              P2 read sleeping                          C2 read the word of the next cell
//   If C2 saw 0, it came before P1 in the one order of all these steps: C1, C2, P1, P2. So P2 sees
//   1 and the producer rings the bell (an eventfd), after the consumer's last look. It takes the 1
//   away as it does so: one system call for one sleep, none while the consumer is awake.
// `wants_room` and `head` do the same for a producer that waits for room.
//
// The other process is not trusted: the consumer keeps its place to itself and checks each word;
// the producer checks `head`. What fails a check is kRubbish, and the link ends. Thread safety: one
// thread a side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/transport.h"
#include "src/base/shared_memory.h"

namespace kinet {

inline constexpr size_t kShmCell = 64;              // bytes: a cache line
inline constexpr size_t kShmSmallestRing = 4096;    // bytes; 64 puts, 3 of the largest messages
inline constexpr size_t kShmLargestRing = 1 << 30;  // bytes

struct ShmRingHeader {
  alignas(kShmCell) std::atomic<uint64_t> head{0};        // consumer's: bytes taken so far
  alignas(kShmCell) std::atomic<uint32_t> sleeping{0};    // consumer's
  alignas(kShmCell) std::atomic<uint32_t> wants_room{0};  // producer's
  alignas(kShmCell) std::atomic<uint64_t> last_key{0};  // consumer's newest region, see shm_link.h
};
static_assert(sizeof(ShmRingHeader) == 4 * kShmCell);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct ShmEntry {
  uint32_t notify = 0;  // of a put
  uint64_t bytes = 0;   // of a message in `data`, or of a put
  alignas(kShmCell) std::byte data[kMaxMessage];
};

class ShmInbox {  // the consumer's side
 public:
  explicit ShmInbox(size_t ring_bytes);  // a power of two

  enum class Take { kNothing, kMessage, kPut, kRubbish };
  Take take(ShmEntry& out);
  // Gives the room of what was taken back; true: the producer sleeps for want of it, ring its bell.
  bool release();
  void set_sleeping(bool sleeping) { header().sleeping.store(sleeping ? 1 : 0); }
  void set_last_key(uint64_t key) { header().last_key.store(key, std::memory_order_release); }

  int fd() const { return memory_.fd(); }
  size_t ring_bytes() const { return ring_bytes_; }

 private:
  ShmRingHeader& header() const;
  void copy_out(uint64_t from, std::span<std::byte> to) const;

  SharedMemory memory_;
  size_t ring_bytes_;
  uint64_t head_ = 0, released_ = 0;
};

class ShmOutbox {  // the producer's side
 public:
  // Takes the peer's memory over. Throws a run-time Error when it does not fit `ring_bytes`.
  ShmOutbox(int fd, size_t ring_bytes);

  enum class Room { kYes, kNo, kRubbish };
  Room room_for(size_t payload_bytes);
  // REQUIRES: room_for() said yes. true: the consumer sleeps, ring its bell.
  bool push_message(std::span<const std::byte> message);
  bool push_put(uint32_t notify, uint64_t bytes);

  void set_wants_room(bool wants) { header().wants_room.store(wants ? 1 : 0); }
  uint64_t last_key() const { return header().last_key.load(std::memory_order_acquire); }
  size_t ring_bytes() const { return ring_bytes_; }

 private:
  ShmRingHeader& header() const;
  void copy_in(uint64_t to, std::span<const std::byte> from);
  bool publish(uint64_t word, size_t payload_bytes);

  SharedMemory memory_;
  size_t ring_bytes_;
  uint64_t tail_ = 0, head_ = 0;  // head_: as last read
};

}  // namespace kinet
