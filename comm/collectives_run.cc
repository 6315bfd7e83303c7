// Lanes and steps: the one executor of all schedules.
//
// A tag says which arrival it is:  lane * 2 * limit + parity * limit + arrival number
// A peer is at most one turn of a lane ahead, so that the parity of the turn is enough.
#include <fmt/format.h>

#include "comm/collectives_impl.h"
#include "comm/float_sum.h"

namespace kinet {

uint64_t Collectives::Impl::inbox_offset(const Lane& lane, uint64_t lane_number) const {
  return (2 * lane_number + lane.turn % 2) * options.piece * static_cast<uint64_t>(size);
}

void Collectives::Impl::on_put(Rank from, uint32_t tag) {
  const uint32_t limit = arrival_limit(size);
  const uint32_t lane = tag / (2 * limit), parity = tag / limit % 2, number = tag % limit;
  Lane::Arrived* arrived = lane < lanes.size() ? &lanes[lane].arrived[parity][number] : nullptr;
  if (arrived == nullptr || (arrived->times > 0 && arrived->from != from)) {
    return fail_all(
        fmt::format("{} put something that nobody asked for (tag {})", comm.name(from), tag));
  }
  arrived->from = from;
  ++arrived->times;
}

// Runs until every lane has to wait, so that no news is needed for what can be done now.
void Collectives::Impl::pump() {
  if (failed || finished == started) return;
  for (bool moved = true; moved && !failed;) {
    moved = begin_segments();
    for (uint64_t i = 0; i < lanes.size() && !failed; ++i) {
      // The oldest segment first: others may wait for its results.
      const uint64_t lane_number = (segments_begun + i) % lanes.size();
      moved |= run(lanes[lane_number], lane_number);
    }
    retire();
  }
}

// In order over all operations; a segment whose lane is taken holds up those behind it.
bool Collectives::Impl::begin_segments() {
  bool moved = false;
  while (beginning <= started) {
    Operation& op = operation(beginning);
    if (op.begun == op.segments) {
      ++beginning;
      continue;
    }
    const uint64_t lane_number = segments_begun % lanes.size();
    if (lanes[lane_number].busy) break;
    begin(lanes[lane_number], op, beginning);
    moved = true;
  }
  return moved;
}

void Collectives::Impl::begin(Lane& lane, Operation& op, Ticket ticket) {
  fill(op, op.begun, lane.segment);
  generate(op, lane.segment, lane.schedule);
  ++op.begun;
  ++segments_begun;
  ++lane.turn;
  lane.busy = true;
  lane.ticket = ticket;
  lane.flush = op.begun + lanes.size() > op.segments;  // any lane may post the very last put
  lane.next = 0;
}

bool Collectives::Impl::run(Lane& lane, uint64_t lane_number) {
  if (!lane.busy) return false;
  bool moved = false;
  while (lane.next < lane.schedule.steps.size()) {
    if (!step(lane, lane_number, lane.schedule.steps[lane.next])) return moved;
    ++lane.next;
    moved = true;
  }
  lane.busy = false;
  ++operation(lane.ticket).ended;
  return true;
}

// false: not now.
bool Collectives::Impl::step(Lane& lane, uint64_t lane_number, const Step& step) {
  switch (step.kind) {
    case Step::Kind::kPut:
      return put(lane, lane_number, step);
    case Step::Kind::kWait:
      return take_arrival(lane, step);
    case Step::Kind::kSum:
      sum(lane, lane_number, step);
      return true;
  }
  return true;
}

bool Collectives::Impl::take_arrival(Lane& lane, const Step& step) {
  Lane::Arrived& arrived = lane.arrived[lane.turn % 2][step.arrival];
  if (arrived.times < step.times) {
    if (comm.state(step.peer) == PeerState::kLeft) fail_for_one_that_left(step.peer);
    return false;
  }
  const Rank from = arrived.from;
  arrived = {};
  if (from == step.peer) return true;
  fail_all(fmt::format("{} put what {} was to put (arrival {})", comm.name(from),
                       comm.name(step.peer), step.arrival));
  return false;
}

bool Collectives::Impl::put(const Lane& lane, uint64_t lane_number, const Step& step) {
  const CollectivePeer& peer = peers[step.peer];
  const uint64_t inbox_start = inbox_offset(lane, lane_number);
  RegionPut put;
  const bool from_inbox = step.from.place == Place::kInbox,
             to_inbox = step.to.place == Place::kInbox;
  if (step.bytes > 0) put.from = from_inbox ? inbox.get() : &data;
  put.from_offset = step.from.offset + (from_inbox ? inbox_start : 0);
  put.to = to_inbox ? peer.hello->inbox : peer.hello->data;
  put.to_offset = step.to.offset + (to_inbox ? inbox_start : 0);
  put.bytes = step.bytes;
  put.kind = kind;
  put.tag =
      static_cast<uint32_t>((2 * lane_number + lane.turn % 2) * arrival_limit(size)) + step.arrival;
  put.flush = lane.flush && step.last_to_peer;
  switch (comm.put(step.peer, put)) {
    case Post::kAccepted:
      underway(lane.ticket).last_put[step.peer] = comm.puts_posted(step.peer);
      return true;
    case Post::kBusy:
      comm.retry_soon();
      return false;
    case Post::kPeerLost:
      if (comm.state(step.peer) == PeerState::kLeft) fail_for_one_that_left(step.peer);
      return false;  // else on_peer_lost says so
  }
  return false;
}

void Collectives::Impl::sum(const Lane& lane, uint64_t lane_number, const Step& step) {
  const uint64_t inbox_start = inbox_offset(lane, lane_number);
  const auto place = [&](const Slice& slice) {
    return slice.place == Place::kInbox ? inbox->data() + inbox_start + slice.offset
                                        : data.data() + slice.offset;
  };
  sum_sources.clear();
  for (uint32_t i = 0; i < step.source_count; ++i) {
    const Slice& s = lane.schedule.sources[step.first_source + i];
    const std::byte* at = s.place == Place::kPeerData ? peers[s.rank].data + s.offset : place(s);
    sum_sources.push_back(reinterpret_cast<const float*>(at));
  }
  sum_floats(sum_sources, reinterpret_cast<float*>(place(step.to)), step.bytes / sizeof(float));
}

// A peer that has left had ended all operations that it began, and its puts came before its
// goodbye: only an operation that waits for it now can never end.
void Collectives::Impl::fail_for_one_that_left(Rank peer) {
  fail_all(fmt::format("{} left: {}", comm.name(peer), peers[peer].why_left));
}

// Operations are reported in their order, once all their puts have left: the sources may change
// then.
void Collectives::Impl::retire() {
  while (finished < started) {
    const Underway& op = underway(finished + 1);
    if (op.operation.ended < op.operation.segments || !puts_have_left(op)) return;
    ++finished;
  }
}

bool Collectives::Impl::puts_have_left(const Underway& op) const {
  for (Rank r = 0; r < size; ++r) {
    if (r == rank || comm.state(r) != PeerState::kAlive) continue;
    if (comm.puts_completed(r) < op.last_put[r]) return false;
  }
  return true;
}

}  // namespace kinet
