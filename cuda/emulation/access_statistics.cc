#include "cuda/emulation/access_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "cuda/emulation/checker.h"
#include "cuda/emulation/engine.h"

namespace kinet::emulation {
namespace {

constexpr uintptr_t kSector = 32, kWord = 4;  // bytes
constexpr size_t kBanks = 32;

// Calls visit(unit) once for each unit of `size` bytes that an access touches. REQUIRES: sorted
template <class Visit>
void for_each_unit(const std::vector<uintptr_t>& sorted, size_t bytes, uintptr_t size,
                   const Visit& visit) {
  uintptr_t next = 0;  // the first unit not yet seen
  for (const uintptr_t address : sorted) {
    const uintptr_t last = (address + bytes - 1) / size;
    for (uintptr_t unit = std::max(address / size, next); unit <= last; ++unit) visit(unit);
    next = std::max(next, last + 1);
  }
}

struct Cost {
  int64_t paid = 0, least = 0;
};

Cost sectors(const std::vector<uintptr_t>& sorted, size_t bytes) {
  Cost cost;
  int64_t asked = 0;
  for_each_unit(sorted, bytes, kSector, [&](uintptr_t) { ++cost.paid; });
  for_each_unit(sorted, bytes, 1, [&](uintptr_t) { ++asked; });
  cost.least = (asked + int64_t{kSector} - 1) / int64_t{kSector};
  return cost;
}

Cost ways(const std::vector<uintptr_t>& sorted, size_t bytes) {
  std::array<int64_t, kBanks> of_bank{};
  int64_t words = 0;
  for_each_unit(sorted, bytes, kWord, [&](uintptr_t word) {
    ++of_bank[word % kBanks];
    ++words;
  });
  return {*std::max_element(of_bank.begin(), of_bank.end()),
          (words + int64_t{kBanks} - 1) / int64_t{kBanks}};
}

const char* verb(AccessKind kind) {
  return kind == AccessKind::kRead ? "read" : kind == AccessKind::kWrite ? "write" : "atomic";
}

// "(tile_kernel<16, 16>)" as it is written at a launch.
std::string without_parentheses(const std::string& kernel) {
  const bool in = kernel.size() > 2 && kernel.front() == '(' && kernel.back() == ')';
  return in ? kernel.substr(1, kernel.size() - 2) : kernel;
}

}  // namespace

void AccessStatistics::begin_launch(bool on, const std::string& kernel, size_t threads) {
  on_ = on;
  kernel_ = without_parentheses(kernel);
  threads_ = threads;
  instructions_.clear();
}

AccessStatistics::Instruction& AccessStatistics::instruction(const void* pc, AccessKind kind,
                                                             bool shared, size_t bytes) {
  Instruction& i = instructions_[pc];
  if (i.row != nullptr) return i;
  AccessRow& row = rows_[{kernel_, pc}];
  row.kernel = kernel_;
  row.shared = shared;
  row.access = fmt::format("{} {}", verb(kind), bytes);
  i.row = &row;
  i.bytes = bytes;
  i.times.resize(threads_);
  i.warps.resize((threads_ + kWarpLanes - 1) / kWarpLanes);
  return i;
}

void AccessStatistics::add(const void* pc, AccessKind kind, bool shared, size_t thread,
                           const char* address, size_t bytes) {
  Instruction& i = instruction(pc, kind, shared, bytes);
  const uint32_t n = i.times[thread]++;
  std::vector<WarpAccess>& warp = i.warps[thread / kWarpLanes];
  if (n >= warp.size()) warp.resize(n + 1);
  const size_t lane = thread % kWarpLanes;
  warp[n].lanes |= 1u << lane;
  warp[n].address[lane] = address;
}

void AccessStatistics::end_block() {
  std::vector<uintptr_t> sorted;
  for (auto& [pc, i] : instructions_) {
    for (std::vector<WarpAccess>& warp : i.warps) {
      for (const WarpAccess& access : warp) {
        sorted.clear();
        for (size_t lane = 0; lane < kWarpLanes; ++lane) {
          if ((access.lanes >> lane & 1u) != 0) {
            sorted.push_back(reinterpret_cast<uintptr_t>(access.address[lane]));
          }
        }
        std::sort(sorted.begin(), sorted.end());
        const Cost cost = i.row->shared ? ways(sorted, i.bytes) : sectors(sorted, i.bytes);
        ++i.row->warps;
        i.row->lanes += static_cast<int64_t>(sorted.size());
        i.row->paid += cost.paid;
        i.row->least += cost.least;
        i.row->worst = std::max(i.row->worst, cost.paid);
      }
      warp.clear();
    }
    std::fill(i.times.begin(), i.times.end(), 0u);
  }
}

// Rows of one place (templates, unrolled loops) become one.
std::vector<AccessRow> AccessStatistics::take() {
  std::map<std::tuple<std::string, std::string, std::string, bool>, AccessRow> merged;
  for (auto& [key, row] : rows_) {
    if (row.warps == 0) continue;
    row.place = lines_of(key.second);
    AccessRow& sum = merged[{row.kernel, row.place, row.access, row.shared}];
    if (sum.warps == 0) {
      sum = row;
      continue;
    }
    sum.warps += row.warps;
    sum.lanes += row.lanes;
    sum.paid += row.paid;
    sum.least += row.least;
    sum.worst = std::max(sum.worst, row.worst);
  }
  rows_.clear();
  instructions_.clear();
  std::vector<AccessRow> result;
  for (auto& [key, row] : merged) result.push_back(std::move(row));
  std::stable_sort(result.begin(), result.end(), [](const AccessRow& a, const AccessRow& b) {
    return a.paid - a.least > b.paid - b.least;
  });
  return result;
}

std::string text_of(const std::vector<AccessRow>& rows) {
  std::string text =
      "memory    paid least worst lanes      warps access    kernel, place  (per access of a warp; "
      "global: sectors of 32 bytes, shared: ways of bank conflicts)\n";
  for (const AccessRow& r : rows) {
    const auto mean = [&](int64_t sum) {
      return static_cast<double>(sum) / static_cast<double>(r.warps);
    };
    text += fmt::format("{:7} {:6.2f} {:5.2f} {:5} {:5.1f} {:10} {:9} {}, {}\n",
                        r.shared ? "shared" : "global", mean(r.paid), mean(r.least), r.worst,
                        mean(r.lanes), r.warps, r.access, r.kernel, r.place);
  }
  return text;
}

}  // namespace kinet::emulation
