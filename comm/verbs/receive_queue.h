// Receives with their buffers: one queue shared by all peers (SRQ), or one of a queue pair.
//
// Every receive has a slot of the same size; the slot's number is the request's wr_id. A slot that
// has been received into is given back, and goes to the device with others in one call of flush().
// Thread safety: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/verbs/memory_key.h"

namespace kinet::verbs {

class ReceiveQueue {
 public:
  static constexpr int kBatch = 32;  // receives of one call

  // Throws Error when the device has no such depth.
  ReceiveQueue(Device& device, int slots, size_t slot_bytes, bool shared);
  ~ReceiveQueue();
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  ibv_srq* shared() const { return shared_; }
  int slots() const { return slots_; }
  std::span<std::byte> slot(uint64_t number) {
    return {buffer_.data() + number * slot_bytes_, slot_bytes_};
  }

  // `pair` is the queue pair of a queue that is not shared, else null.
  void post_all(ibv_qp* pair);
  bool full() const { return pending_ == kBatch; }
  void give_back(uint64_t number);  // REQUIRES: !full()
  int flush(ibv_qp* pair);          // returns how many were posted; throws Error

 private:
  Device& device_;
  const int slots_;
  const size_t slot_bytes_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<MemoryKey> key_;
  ibv_srq* shared_ = nullptr;
  int pending_ = 0;
  std::array<ibv_recv_wr, kBatch> requests_{};
  std::array<ibv_sge, kBatch> places_{};
};

}  // namespace kinet::verbs
