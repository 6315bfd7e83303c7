#include "comm/verbs/receive_queue.h"

#include <fmt/format.h>

#include <cerrno>

#include "src/base/check.h"

namespace kinet::verbs {

ReceiveQueue::ReceiveQueue(Device& device, int slots, size_t slot_bytes, bool shared)
    : device_(device), slots_(slots), slot_bytes_(slot_bytes), buffer_(slots * slot_bytes) {
  key_ = std::make_unique<MemoryKey>(device, buffer_.data(), buffer_.size(), false);
  if (!shared) return;
  KINET_CHECK(device.limits().max_srq > 0,
              "verbs: this device has no shared receive queue\nhint: use_srq: false");
  KINET_CHECK(slots <= device.limits().max_srq_wr,
              "verbs: {} receives for all peers; the device has {}\nhint: lower receive_depth",
              slots, device.limits().max_srq_wr);
  ibv_srq_init_attr init{};
  init.attr.max_wr = static_cast<uint32_t>(slots);
  init.attr.max_sge = 1;
  shared_ = ibv_create_srq(device.domain(), &init);
  KINET_CHECK(shared_ != nullptr, "verbs: {}\nhint: use_srq: false",
              system_error(fmt::format("no shared receive queue of {} entries", slots), errno));
}

ReceiveQueue::~ReceiveQueue() {
  if (shared_ != nullptr) ibv_destroy_srq(shared_);
}

void ReceiveQueue::post_all(ibv_qp* pair) {
  pending_ = 0;
  for (int i = 0; i < slots_; ++i) {
    give_back(i);
    if (full()) flush(pair);
  }
  flush(pair);
}

void ReceiveQueue::give_back(uint64_t number) {
  ibv_sge& place = places_[pending_];
  place.addr = reinterpret_cast<uintptr_t>(slot(number).data());
  place.length = static_cast<uint32_t>(slot_bytes_);
  place.lkey = key_->local();
  ibv_recv_wr& request = requests_[pending_];
  request.wr_id = number;
  request.sg_list = &place;
  request.num_sge = 1;
  request.next = nullptr;
  if (pending_ > 0) requests_[pending_ - 1].next = &request;
  ++pending_;
}

int ReceiveQueue::flush(ibv_qp* pair) {
  if (pending_ == 0) return 0;
  ibv_recv_wr* bad = nullptr;
  const int code = shared_ != nullptr ? ibv_post_srq_recv(shared_, requests_.data(), &bad)
                                      : ibv_post_recv(pair, requests_.data(), &bad);
  if (code != 0) fail_runtime("verbs: {}", system_error("receives cannot be posted", code));
  const int count = pending_;
  pending_ = 0;
  return count;
}

}  // namespace kinet::verbs
