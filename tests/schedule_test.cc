// ctest: labels=unit,core,smoke
//
// Every schedule on plain arrays: all ranks of it run in one loop that takes steps in random order;
// a put reads its source and arrives at a random moment. Checked: the sums, that each put meets one
// wait, that nothing in an inbox is overwritten, and that a rank is never through before all others
// have begun.
#include "comm/schedule.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <tuple>

#include "comm/float_sum.h"
#include "src/base/rng.h"

namespace kinet {
namespace {

constexpr uint64_t kSlot = 4096;  // bytes

using Generator = void (*)(const Segment&, Schedule&);

struct SimRank {
  Segment segment;
  Schedule schedule;
  size_t next = 0;
  std::vector<float> data, inbox;
  std::map<uint32_t, std::pair<Rank, uint32_t>> arrived;  // from whom, how many
  std::vector<bool> written;                              // floats of the inbox
  bool begun = false;
  bool done() const { return begun && next == schedule.steps.size(); }
};

class Simulation {
 public:
  Simulation(int size, uint64_t floats, uint64_t seed) : random_(seed), ranks_(size) {
    for (Rank r = 0; r < size; ++r) {
      SimRank& rank = ranks_[r];
      rank.segment.rank = r;
      rank.segment.size = size;
      rank.segment.slot = kSlot;
      rank.segment.step = seed % 2 == 0 ? kSlot : 256;  // one step, or several
      rank.segment.reads.assign(size, false);
      rank.segment.read_by.assign(size, false);
      rank.data.resize(floats);
      for (float& x : rank.data) x = random_.uniform(-1, 1);
      rank.inbox.resize(size * kSlot / sizeof(float));
      rank.written.resize(rank.inbox.size());
    }
  }

  SimRank& rank(Rank r) { return ranks_[r]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  void pieces(const std::vector<Range>& pieces) {
    for (SimRank& r : ranks_) r.segment.pieces = pieces;
  }
  void root(Rank root) {
    for (SimRank& r : ranks_) r.segment.root = root;
  }
  // Some pairs see each other's data.
  void map(bool all) {
    for (Rank a = 0; a < size(); ++a) {
      for (Rank b = 0; b < size(); ++b) {
        const bool sees = a != b && (all || random_.below(2) == 0);
        ranks_[a].segment.reads[b] = ranks_[b].segment.read_by[a] = sees;
      }
    }
  }

  void run(Generator generate) {
    for (SimRank& r : ranks_) generate(r.segment, r.schedule);
    int done = 0, idle = 0;
    while (done < size()) {
      if (!flying_.empty() && random_.below(size() + 1) == 0) {
        idle = 0;
        land(random_.below(flying_.size()));
        continue;
      }
      const Rank r = static_cast<Rank>(random_.below(size()));
      if (ranks_[r].done()) continue;
      idle = step(r) ? 0 : idle + 1;
      ASSERT_LT(idle, 100000) << "nobody can go on";
      if (!ranks_[r].done()) continue;
      ++done;
      for (const SimRank& other : ranks_) EXPECT_TRUE(other.begun);
    }
    EXPECT_TRUE(flying_.empty()) << "a put without a wait";
    for (const SimRank& r : ranks_) EXPECT_TRUE(r.arrived.empty()) << "a put without a wait";
  }

 private:
  float* at(SimRank& rank, const Slice& slice) {
    SimRank& owner = slice.place == Place::kPeerData ? ranks_[slice.rank] : rank;
    auto& memory = slice.place == Place::kInbox ? owner.inbox : owner.data;
    EXPECT_EQ(slice.offset % sizeof(float), 0U);
    return memory.data() + slice.offset / sizeof(float);
  }

  bool step(Rank number) {
    SimRank& rank = ranks_[number];
    rank.begun = true;
    if (rank.next == rank.schedule.steps.size()) return true;
    const Step& step = rank.schedule.steps[rank.next];
    if (step.kind == Step::Kind::kWait) {
      const auto it = rank.arrived.find(step.arrival);
      if (it == rank.arrived.end() || it->second.second < step.times) return false;
      EXPECT_EQ(it->second.first, step.peer);
      EXPECT_EQ(it->second.second, step.times);
      rank.arrived.erase(it);
    } else if (step.kind == Step::Kind::kPut) {
      flying_.emplace_back(number, step);
    } else {
      sum(rank, step);
    }
    ++rank.next;
    return true;
  }

  void land(size_t index) {
    const auto [from, step] = flying_[index];
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(index));
    put(from, step);
  }

  void put(Rank from, const Step& step) {
    SimRank& there = ranks_[step.peer];
    EXPECT_NE(step.peer, from);
    EXPECT_LT(step.arrival, arrival_limit(size()));
    auto& arrived = there.arrived.emplace(step.arrival, std::pair(from, 0)).first->second;
    EXPECT_EQ(arrived.first, from) << "arrival number used twice";
    ++arrived.second;
    if (step.bytes == 0) return;
    if (step.to.place == Place::kInbox) {
      ASSERT_LE(step.to.offset + step.bytes, there.inbox.size() * sizeof(float));
      for (uint64_t i = 0; i < step.bytes / sizeof(float); ++i) {
        auto taken = there.written[step.to.offset / sizeof(float) + i];
        EXPECT_FALSE(taken) << "a put into a slot of another";
        taken = true;
      }
    }
    std::memcpy(at(there, step.to), at(ranks_[from], step.from), step.bytes);
  }

  void sum(SimRank& rank, const Step& step) {
    std::vector<const float*> sources;
    for (uint32_t i = 0; i < step.source_count; ++i) {
      sources.push_back(at(rank, rank.schedule.sources[step.first_source + i]));
    }
    sum_floats(sources, at(rank, step.to), step.bytes / sizeof(float));
  }

  Rng random_;
  std::vector<SimRank> ranks_;
  std::vector<std::pair<Rank, Step>> flying_;
};

constexpr uint64_t kBase = 5;  // floats before the segment, and after it

std::vector<Range> share_pieces(uint64_t floats, int parts) {
  std::vector<Range> out;
  for (int p = 0; p < parts; ++p) {
    Range range = share_of(floats * sizeof(float), p, parts);
    range.offset += kBase * sizeof(float);
    out.push_back(range);
  }
  return out;
}

// Sum over ranks 0, 1, ..., of the first data of each.
std::vector<float> serial_sum(Simulation& sim) {
  std::vector<float> out = sim.rank(0).data;
  for (Rank r = 1; r < sim.size(); ++r) {
    for (size_t i = 0; i < out.size(); ++i) out[i] += sim.rank(r).data[i];
  }
  return out;
}

void expect_range(const std::vector<float>& got, const std::vector<float>& want, Range range,
                  bool exact) {
  for (uint64_t i = range.offset / sizeof(float); i < (range.offset + range.bytes) / sizeof(float);
       ++i) {
    if (exact) {
      ASSERT_EQ(got[i], want[i]) << i;
    } else {
      ASSERT_NEAR(got[i], want[i], 1e-5) << i;
    }
  }
}

// Nothing outside of the segment was touched.
void expect_frame(const std::vector<float>& before, const std::vector<float>& after) {
  const uint64_t end = after.size();
  for (uint64_t i = 0; i < kBase; ++i) {
    ASSERT_EQ(before[i], after[i]);
    ASSERT_EQ(before[end - 1 - i], after[end - 1 - i]);
  }
}

class ScheduleTest : public testing::TestWithParam<std::tuple<int, uint64_t>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  uint64_t floats() const { return std::get<1>(GetParam()); }
  Range all() const { return {kBase * sizeof(float), floats() * sizeof(float)}; }

  void all_reduce(Generator generate, const std::vector<Range>& pieces, bool exact, int mapped) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Simulation sim(size(), floats() + 2 * kBase, seed);
      sim.pieces(pieces);
      if (mapped > 0) sim.map(mapped == 2);
      const std::vector<float> want = serial_sum(sim);
      const std::vector<float> before = sim.rank(0).data;
      sim.run(generate);
      for (Rank r = 0; r < size(); ++r) expect_range(sim.rank(r).data, want, all(), exact);
      for (Rank r = 1; r < size(); ++r) {  // all have the same bits
        expect_range(sim.rank(r).data, sim.rank(0).data, all(), true);
      }
      expect_frame(before, sim.rank(0).data);
    }
  }
};

TEST_P(ScheduleTest, AllReduce) {
  const auto shares = share_pieces(floats(), size());
  all_reduce(flat_all_reduce, {all()}, true, 0);
  for (int mapped = 0; mapped < 3; ++mapped) all_reduce(direct_all_reduce, shares, true, mapped);
  all_reduce(ring_all_reduce, shares, false, 0);
}

TEST_P(ScheduleTest, HalvingDoubling) {
  all_reduce(halving_doubling_all_reduce, share_pieces(floats(), halving_pieces(size())), false, 0);
}

TEST_P(ScheduleTest, ReduceScatterAndAllGather) {
  const auto shares = share_pieces(floats(), size());
  for (const bool ring : {false, true}) {
    Simulation sim(size(), floats() + 2 * kBase, 7);
    sim.pieces(shares);
    const std::vector<float> want = serial_sum(sim);
    sim.run(ring ? ring_reduce_scatter : direct_reduce_scatter);
    for (Rank r = 0; r < size(); ++r) expect_range(sim.rank(r).data, want, shares[r], !ring);

    Simulation gather(size(), floats() + 2 * kBase, 8);
    gather.pieces(shares);
    std::vector<float> pieced = gather.rank(0).data;
    for (Rank r = 0; r < size(); ++r) {
      const auto first = static_cast<std::ptrdiff_t>(shares[r].offset / sizeof(float));
      const auto count = static_cast<std::ptrdiff_t>(shares[r].bytes / sizeof(float));
      std::copy_n(gather.rank(r).data.begin() + first, count, pieced.begin() + first);
    }
    gather.run(ring ? ring_all_gather : direct_all_gather);
    for (Rank r = 0; r < size(); ++r) expect_range(gather.rank(r).data, pieced, all(), true);
  }
}

TEST_P(ScheduleTest, Trees) {
  for (Rank root = 0; root < size(); ++root) {
    Simulation sum(size(), floats() + 2 * kBase, 11 + root);
    sum.pieces({all()});
    sum.root(root);
    const std::vector<float> want = serial_sum(sum);
    const std::vector<float> other = sum.rank((root + 1) % size()).data;
    sum.run(tree_reduce);
    expect_range(sum.rank(root).data, want, all(), false);
    expect_range(sum.rank((root + 1) % size()).data, other, all(), true);

    Simulation spread(size(), floats() + 2 * kBase, 12 + root);
    spread.pieces({all()});
    spread.root(root);
    const std::vector<float> sent = spread.rank(root).data;
    spread.run(tree_broadcast);
    for (Rank r = 0; r < size(); ++r) expect_range(spread.rank(r).data, sent, all(), true);
  }
}

TEST_P(ScheduleTest, Barrier) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Simulation sim(size(), 2 * kBase, seed);
    sim.run(barrier);
  }
}

// The floats of two to nine ranks fit into half their slots, as halving-doubling needs.
INSTANTIATE_TEST_SUITE_P(, ScheduleTest,
                         testing::Combine(testing::Values(2, 3, 4, 5, 6, 7, 8, 9),
                                          testing::Values(1, 2, 9, 16, 33, 500, 960)));

TEST(ShareTest, SharesAreNeighboursAndEqualToALine) {
  for (const uint64_t bytes : {0ULL, 4ULL, 64ULL, 68ULL, 4096ULL, 100000ULL}) {
    for (int parts = 1; parts < 10; ++parts) {
      uint64_t end = 0;
      for (int p = 0; p < parts; ++p) {
        const Range share = share_of(bytes, p, parts);
        EXPECT_EQ(share.offset, end);
        EXPECT_LE(share.bytes, bytes / static_cast<uint64_t>(parts) + 64);
        end += share.bytes;
      }
      EXPECT_EQ(end, bytes);
    }
  }
}

TEST(FloatSumTest, OrderAndAliases) {
  Rng random(3);
  constexpr size_t kCount = 2500;
  std::vector<std::vector<float>> sources(5, std::vector<float>(kCount));
  for (auto& s : sources) {
    for (float& x : s) x = random.gaussian();
  }
  for (size_t n = 1; n <= sources.size(); ++n) {
    for (size_t target = 0; target < n; ++target) {
      auto copy = sources;
      std::vector<float> want = copy[0];
      for (size_t s = 1; s < n; ++s) {
        for (size_t i = 0; i < kCount; ++i) want[i] += copy[s][i];
      }
      std::vector<const float*> pointers;
      for (size_t s = 0; s < n; ++s) pointers.push_back(copy[s].data());
      sum_floats(pointers, copy[target].data(), kCount);
      EXPECT_EQ(copy[target], want);
    }
  }
}

}  // namespace
}  // namespace kinet
