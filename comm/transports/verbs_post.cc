// The fast path of a link: messages and puts become work requests.
//
//   message      SEND WITH IMMEDIATE, inline when small, else from a copy in registered memory
//   put          RDMA WRITE WITH IMMEDIATE, inline when small, else straight from the region
//   put of n > 1 pieces   SEND (n - 1 writes follow) | n - 1 RDMA WRITE | RDMA WRITE WITH IMMEDIATE
// Nothing here allocates, registers or makes a system call of its own.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "comm/transports/verbs_link.h"

namespace kinet {

void VerbsLink::post(int lane, ibv_send_wr& request, bool signal) {
  Lane& l = lanes_[lane];
  const uint64_t number = l.window.next();
  request.wr_id = pack(verbs::RequestId{verbs::RequestKind::kSend, peer_, lane, epoch_,
                                        static_cast<uint32_t>(number)});
  if (l.window.post(signal)) {
    request.send_flags |= IBV_SEND_SIGNALED;
    ++endpoint_.counters.signalled;
  }
  ++endpoint_.counters.work_requests;
  if (!l.pair->post(request)) broken_ = true;
}

void VerbsLink::post_tag(int lane, verbs::MessageTag tag, std::span<const std::byte> message,
                         bool signal) {
  Lane& l = lanes_[lane];
  ibv_sge place{};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(verbs::pack(tag));
  if (!message.empty()) {
    place.length = static_cast<uint32_t>(message.size());
    request.sg_list = &place;
    request.num_sge = 1;
    if (message.size() <= l.pair->inline_bytes()) {
      place.addr = reinterpret_cast<uintptr_t>(message.data());
      request.send_flags = IBV_SEND_INLINE;
    } else {
      // Slots are as many as requests fit into the window: none is taken while under way.
      const size_t slot = l.window.next() % endpoint_.settings.send_depth;
      std::byte* copy = messages_.data() + slot * kMaxMessage;
      std::memcpy(copy, message.data(), message.size());
      place.addr = reinterpret_cast<uintptr_t>(copy);
      place.lkey = messages_key_->local();
    }
  }
  post(lane, request, signal);
}

Post VerbsLink::send(std::span<const std::byte> message) {
  if (!credits_.has(1) || !lanes_[0].window.has_room(1, kReservedSends)) return Post::kBusy;
  credits_.use(1);
  const auto owed = static_cast<uint32_t>(credits_.take_owed());
  post_tag(0, {verbs::MessageKind::kData, 0, owed}, message, false);
  return Post::kAccepted;
}

bool VerbsLink::return_credits() {
  if (!credits_.may_return() || !lanes_[0].window.has_room(1)) return false;
  credits_.use_for_return();
  const auto owed = static_cast<uint32_t>(credits_.take_owed());
  post_tag(0, {verbs::MessageKind::kCredits, 0, owed}, {}, false);
  return true;
}

bool VerbsLink::say_goodbye() {
  if (!credits_.may_return() || !lanes_[0].window.has_room(1)) return false;
  credits_.use_for_return();
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data =
      htonl(verbs::pack(verbs::MessageTag{verbs::MessageKind::kControl, verbs::kByeCode, 0}));
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr_id = pack(verbs::RequestId{verbs::RequestKind::kBye, peer_, 0, epoch_, 0});
  ++endpoint_.counters.work_requests;
  return lanes_[0].pair->post(request);
}

// The next lane, in turn, that has room; -1: none.
int VerbsLink::free_lane(uint64_t requests) {
  const int count = static_cast<int>(lanes_.size());
  for (int i = 0; i < count; ++i) {
    const int lane = (next_lane_ + i) % count;
    if (!lanes_[lane].window.has_room(requests, reserve(lane))) continue;
    next_lane_ = (lane + 1) % count;
    return lane;
  }
  return -1;
}

void VerbsLink::post_piece(int lane, const Put& put, uint64_t offset, uint64_t bytes, bool last) {
  ibv_sge place{};
  ibv_send_wr request{};
  request.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.imm_data = htonl(put.notify);
  request.wr.rdma.remote_addr = put.to.address + put.to_offset + offset;
  request.wr.rdma.rkey = static_cast<uint32_t>(put.to.key);
  if (bytes > 0) {
    place.addr = reinterpret_cast<uintptr_t>(put.from->data() + put.from_offset + offset);
    place.length = static_cast<uint32_t>(bytes);
    request.sg_list = &place;
    request.num_sge = 1;
    if (bytes <= lanes_[lane].pair->inline_bytes()) {
      request.send_flags = IBV_SEND_INLINE;
      endpoint_.counters.copied_bytes += bytes;
    } else {
      place.lkey = static_cast<const VerbsRegion*>(put.from)->local_key();
    }
  }
  post(lane, request, last && put.flush);
}

Post VerbsLink::put(const Put& put) {
  const bool whole = put.bytes <= piece_;
  if (partial_.active || !credits_.has(whole ? 1 : 2)) return Post::kBusy;
  const int lane = free_lane(whole ? 1 : 3);
  if (lane < 0) return Post::kBusy;
  credits_.use(whole ? 1 : 2);
  if (!whole) {
    const auto leading = static_cast<uint32_t>((put.bytes - 1) / piece_);
    post_tag(lane, {verbs::MessageKind::kPieces, leading, 0}, {}, false);
  }
  partial_ = {put, lane, 0, true};
  post_more();
  if (put.flush && lanes_.size() > 1) {
    for (Lane& l : lanes_) l.flush_due = true;
    flush_lanes();
  }
  return Post::kAccepted;
}

// Puts are reported in the order accepted, and those before a flush may lie on other lanes, where
// nothing asks for a completion. An empty write there does.
void VerbsLink::flush_lanes() {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (!lane.flush_due || !lane.window.has_room(1)) continue;
    lane.flush_due = false;
    if (!lane.window.ends_silent()) continue;
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    post(static_cast<int>(i), request, true);
  }
}

void VerbsLink::post_more() {
  Partial& p = partial_;
  Lane& lane = lanes_[p.lane];
  while (p.active && lane.window.has_room(1, reserve(p.lane))) {
    const uint64_t bytes = std::min<uint64_t>(p.put.bytes - p.done, piece_);
    const bool last = p.done + bytes == p.put.bytes;
    post_piece(p.lane, p.put, p.done, bytes, last);
    p.done += bytes;
    if (!last) continue;
    p.active = false;
    puts_[(first_put_ + put_count_++) % puts_.size()] = {p.lane, lane.window.posted()};
  }
}

uint64_t VerbsLink::complete(int lane, uint32_t number) {
  verbs::SendWindow& window = lanes_[lane].window;
  window.complete(verbs::full_number(number, window.completed()));
  uint64_t left = 0;
  while (put_count_ > 0) {
    const Outstanding& oldest = puts_[first_put_];
    if (lanes_[oldest.lane].window.completed() < oldest.last) break;
    first_put_ = (first_put_ + 1) % puts_.size();
    --put_count_;
    ++left;
  }
  if (partial_.active) post_more();
  if (lanes_[lane].flush_due) flush_lanes();
  return left;
}

}  // namespace kinet
