#include "comm/schedule.h"

#include <algorithm>

namespace kinet {
namespace {

constexpr uint64_t kLine = 64;             // bytes of a cache line
constexpr uint32_t kNumbersOfAPhase = 32;  // at least: rounds of trees and of halving

uint32_t phase_stride(int size) { return std::max(static_cast<uint32_t>(size), kNumbersOfAPhase); }

}  // namespace

void Schedule::clear() {
  steps.clear();
  sources.clear();
  summed_ = 0;
}

void Schedule::put(Rank to, Slice from, Slice into, uint64_t bytes, uint32_t arrival) {
  Step& step = steps.emplace_back();
  step.kind = Step::Kind::kPut;
  step.peer = to;
  step.from = from;
  step.to = into;
  step.bytes = bytes;
  step.arrival = arrival;
}

void Schedule::notify(Rank to, uint32_t arrival) { put(to, {}, {}, 0, arrival); }

void Schedule::wait(Rank from, uint32_t arrival, uint32_t times) {
  Step& step = steps.emplace_back();
  step.kind = Step::Kind::kWait;
  step.peer = from;
  step.arrival = arrival;
  step.times = times;
}

void Schedule::sum(Slice into, uint64_t bytes) {
  Step& step = steps.emplace_back();
  step.kind = Step::Kind::kSum;
  step.to = into;
  step.bytes = bytes;
  step.first_source = summed_;
  step.source_count = static_cast<uint32_t>(sources.size()) - summed_;
  summed_ = static_cast<uint32_t>(sources.size());
}

// Backwards, until every peer has been met.
void Schedule::mark_last_puts(int size) {
  met_.assign(size, false);
  int left = size;
  for (auto step = steps.rbegin(); step != steps.rend() && left > 0; ++step) {
    if (step->kind != Step::Kind::kPut || met_[step->peer]) continue;
    step->last_to_peer = met_[step->peer] = true;
    --left;
  }
}

uint32_t arrival_number(const Segment& s, uint32_t phase, uint32_t number) {
  return phase * phase_stride(s.size) + number;
}

uint32_t arrival_limit(int size) { return kPhases * phase_stride(size); }

Range share_of(uint64_t bytes, int part, int parts) {
  const uint64_t lines = (bytes + kLine - 1) / kLine;
  const auto border = [&](uint64_t p) {
    return std::min(bytes, lines * p / static_cast<uint64_t>(parts) * kLine);
  };
  const uint64_t begin = border(part);
  return {begin, border(part + 1) - begin};
}

}  // namespace kinet
