#include "comm/transports/shm_ring.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr uint64_t kMark = 0xA5;
constexpr uint64_t kMessage = 1, kPut = 2;
constexpr size_t kWord = sizeof(uint64_t);

uint64_t make_word(uint64_t kind, uint64_t bytes, uint32_t notify) {
  return kMark | kind << 8 | bytes << 16 | uint64_t{notify} << 32;
}

size_t cells_of(size_t payload_bytes) { return (kWord + payload_bytes + kShmCell - 1) / kShmCell; }

ShmRingHeader& header_of(const SharedMemory& memory) {
  return *std::launder(reinterpret_cast<ShmRingHeader*>(memory.data()));
}

std::byte* cells_of_ring(const SharedMemory& memory) {
  return memory.data() + sizeof(ShmRingHeader);
}

std::atomic_ref<uint64_t> word_at(const SharedMemory& memory, uint64_t place) {
  return std::atomic_ref(*reinterpret_cast<uint64_t*>(cells_of_ring(memory) + place));
}

}  // namespace

ShmInbox::ShmInbox(size_t ring_bytes)
    : memory_(sizeof(ShmRingHeader) + ring_bytes, "kinet-shm-ring"), ring_bytes_(ring_bytes) {
  new (memory_.data()) ShmRingHeader;
}

ShmRingHeader& ShmInbox::header() const { return header_of(memory_); }

void ShmInbox::copy_out(uint64_t from, std::span<std::byte> to) const {
  const size_t start = from & (ring_bytes_ - 1);
  const size_t first = std::min(to.size(), ring_bytes_ - start);
  std::memcpy(to.data(), cells_of_ring(memory_) + start, first);
  std::memcpy(to.data() + first, cells_of_ring(memory_), to.size() - first);
}

// Copied out before it is looked at: the producer could still write to the ring.
ShmInbox::Take ShmInbox::take(ShmEntry& out) {
  const uint64_t mask = ring_bytes_ - 1;
  const uint64_t word = word_at(memory_, head_ & mask).load();
  if (word == 0) return Take::kNothing;
  const uint64_t kind = word >> 8 & 0xFF;
  const size_t payload = word >> 16 & 0xFFFF;
  const bool message = kind == kMessage && payload <= kMaxMessage && word >> 32 == 0;
  const bool put = kind == kPut && payload == sizeof(out.bytes);
  if ((word & 0xFF) != kMark || (!message && !put)) return Take::kRubbish;
  if (message) {
    out.bytes = payload;
    copy_out(head_ + kWord, {out.data, payload});
  } else {
    out.notify = static_cast<uint32_t>(word >> 32);
    copy_out(head_ + kWord, std::as_writable_bytes(std::span(&out.bytes, 1)));
  }
  for (size_t cell = 0; cell < cells_of(payload); ++cell, head_ += kShmCell) {
    word_at(memory_, head_ & mask).store(0, std::memory_order_relaxed);
  }
  return message ? Take::kMessage : Take::kPut;
}

bool ShmInbox::release() {
  if (released_ == head_) return false;
  released_ = head_;
  header().head.store(head_);
  std::atomic<uint32_t>& wanted = header().wants_room;
  return wanted.load() != 0 && wanted.exchange(0) != 0;
}

ShmOutbox::ShmOutbox(int fd, size_t ring_bytes)
    : memory_(SharedMemory::from_fd(fd, sizeof(ShmRingHeader) + ring_bytes)),
      ring_bytes_(ring_bytes) {}

ShmRingHeader& ShmOutbox::header() const { return header_of(memory_); }

ShmOutbox::Room ShmOutbox::room_for(size_t payload_bytes) {
  const size_t needed = cells_of(payload_bytes) * kShmCell;
  if (ring_bytes_ - (tail_ - head_) >= needed) return Room::kYes;
  const uint64_t head = header().head.load();
  if (head % kShmCell != 0 || head - head_ > tail_ - head_) return Room::kRubbish;
  head_ = head;
  return ring_bytes_ - (tail_ - head_) >= needed ? Room::kYes : Room::kNo;
}

void ShmOutbox::copy_in(uint64_t to, std::span<const std::byte> from) {
  const size_t start = to & (ring_bytes_ - 1);
  const size_t first = std::min(from.size(), ring_bytes_ - start);
  std::memcpy(cells_of_ring(memory_) + start, from.data(), first);
  std::memcpy(cells_of_ring(memory_), from.data() + first, from.size() - first);
}

bool ShmOutbox::publish(uint64_t word, size_t payload_bytes) {
  word_at(memory_, tail_ & (ring_bytes_ - 1)).store(word);
  tail_ += cells_of(payload_bytes) * kShmCell;
  std::atomic<uint32_t>& sleeping = header().sleeping;
  return sleeping.load() != 0 && sleeping.exchange(0) != 0;
}

bool ShmOutbox::push_message(std::span<const std::byte> message) {
  if (!message.empty()) copy_in(tail_ + kWord, message);
  return publish(make_word(kMessage, message.size(), 0), message.size());
}

bool ShmOutbox::push_put(uint32_t notify, uint64_t bytes) {
  copy_in(tail_ + kWord, std::as_bytes(std::span(&bytes, 1)));
  return publish(make_word(kPut, sizeof(bytes), notify), sizeof(bytes));
}

}  // namespace kinet
