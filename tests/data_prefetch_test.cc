// The order of items and the threads that fetch them: what comes out depends on neither the number
// of threads nor the depth, and any position can be gone back to.
// ctest: labels=unit,core,smoke,threads
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "data/prefetch.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

constexpr uint64_t kSeed = 7, kLayer = 11;

std::unique_ptr<Prefetcher> prefetcher(const std::shared_ptr<const Dataset>& dataset, int64_t batch,
                                       PrefetchOptions options, bool shuffle = true,
                                       bool skip = false) {
  TransformSpec spec;
  spec.mirror = true;
  spec.crop_size = 2;
  auto maker = std::make_unique<BatchMaker>(dataset, Transformer(spec, Phase::kTrain),
                                            OrderKey{shuffle, kSeed, kLayer}, batch, skip);
  return std::make_unique<Prefetcher>(std::move(maker), options);
}

// Data and labels of `count` batches, one after the other.
std::vector<float> take(Prefetcher& from, int count) {
  std::vector<float> out;
  for (int i = 0; i < count; ++i) {
    from.consume([&out](const Batch& b) {
      out.insert(out.end(), b.labels().begin(), b.labels().end());
      out.insert(out.end(), b.data.data(), b.data.data() + b.items() * b.size.count());
    });
  }
  return out;
}

std::vector<int> labels(Prefetcher& from, int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) {
    from.consume(
        [&out](const Batch& b) { out.insert(out.end(), b.labels().begin(), b.labels().end()); });
  }
  return out;
}

TEST(EpochOrder, EachEpochIsAnotherPermutation) {
  const EpochOrder order(10, {true, kSeed, kLayer});
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t e = 0; e < 3; ++e) {
    std::vector<int64_t> items;
    for (int64_t i = 0; i < 10; ++i) items.push_back(order.item_at(e * 10 + i));
    EXPECT_EQ(std::set<int64_t>(items.begin(), items.end()).size(), 10u);
    epochs.push_back(items);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(order.item_at(3), epochs[0][3]);  // going back finds the same
  EXPECT_NE(EpochOrder(10, {true, kSeed + 1, kLayer}).item_at(0) * 100 +
                EpochOrder(10, {true, kSeed + 1, kLayer}).item_at(1) * 10 +
                EpochOrder(10, {true, kSeed + 1, kLayer}).item_at(2),
            epochs[0][0] * 100 + epochs[0][1] * 10 + epochs[0][2]);
}

TEST(EpochOrder, EveryItemCanComeFirst) {
  std::set<int64_t> first;
  const EpochOrder order(5, {true, kSeed, kLayer});
  for (int64_t e = 0; e < 60; ++e) first.insert(order.item_at(e * 5));
  EXPECT_EQ(first.size(), 5u);
}

TEST(EpochOrder, WithoutShuffleTheFileOrder) {
  const EpochOrder order(4, {false, kSeed, kLayer});
  for (int64_t p = 0; p < 12; ++p) EXPECT_EQ(order.item_at(p), p % 4);
}

TEST(Prefetch, SameBatchesForAnyThreadsAndDepth) {
  const auto dataset = std::make_shared<CountingDataset>(10, 4, 5);
  const std::vector<float> expected = take(*prefetcher(dataset, 3, {0, 1}), 25);
  for (int threads : {1, 4}) {
    for (int depth : {1, 4, 8}) {
      EXPECT_EQ(take(*prefetcher(dataset, 3, {depth, threads}), 25), expected)
          << threads << " threads, depth " << depth;
    }
  }
}

// D1: the sequence after a seek is that of a run never interrupted.
TEST(Prefetch, SeekContinuesTheSequence) {
  const auto dataset = std::make_shared<CountingDataset>(10, 4, 5);
  const auto reference = prefetcher(dataset, 3, {0, 1});
  take(*reference, 6);
  EXPECT_EQ(reference->position(), 18);
  const std::vector<float> expected = take(*reference, 9);
  for (int threads : {1, 4}) {
    for (int depth : {1, 8}) {
      const auto resumed = prefetcher(dataset, 3, {depth, threads});
      take(*resumed, 2);  // somewhere else first, with batches in flight
      resumed->seek(18);
      EXPECT_EQ(take(*resumed, 9), expected) << threads << " threads, depth " << depth;
      EXPECT_EQ(resumed->position(), 18 + 27);
    }
  }
}

// Workers that read together read what one reads with a batch that many times larger: mirroring and
// crops, which follow the item, included. All stand at the same position.
TEST(Prefetch, WorkersShareTheSequence) {
  const auto dataset = std::make_shared<CountingDataset>(10, 4, 5);
  for (int depth : {0, 1, 4}) {
    const auto alone = prefetcher(dataset, 6, {0, 1});
    std::vector<std::unique_ptr<Prefetcher>> workers;
    for (int w = 0; w < 3; ++w) {
      workers.push_back(prefetcher(dataset, 2, {depth, 2}));
      workers.back()->partition(w, 3);
    }
    for (int batch = 0; batch < 12; ++batch) {
      std::vector<int> together;
      for (const auto& worker : workers) {
        for (int label : labels(*worker, 1)) together.push_back(label);
      }
      EXPECT_EQ(together, labels(*alone, 1)) << "depth " << depth << ", batch " << batch;
      for (const auto& worker : workers) EXPECT_EQ(worker->position(), alone->position());
    }
    workers[1]->seek(18);
    alone->seek(18);
    const std::vector<int> whole = labels(*alone, 1);
    EXPECT_EQ(labels(*workers[1], 1), (std::vector<int>{whole[2], whole[3]}));
  }
}

// B7: a pass covers the set exactly once for any batch size, and two passes are the same.
TEST(Prefetch, PassOverTheEpoch) {
  const auto dataset = std::make_shared<CountingDataset>(7, 4, 5);
  for (int batch = 1; batch <= 9; ++batch) {
    const auto source = prefetcher(dataset, batch, {4, 2}, /*shuffle=*/false);
    source->stop_at_epoch_end(true);
    std::vector<float> passes[2];
    for (auto& pass : passes) {
      source->seek(0);
      std::vector<int> seen;
      while (source->position() < 7) {
        source->consume([&](const Batch& b) {
          seen.insert(seen.end(), b.labels().begin(), b.labels().end());
          pass.insert(pass.end(), b.data.data(), b.data.data() + b.items() * b.size.count());
        });
      }
      EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4, 5, 6})) << "batch " << batch;
      EXPECT_EQ(source->position(), 7);
    }
    EXPECT_EQ(passes[0], passes[1]);
    // Items 7, 8, ... are epoch 1; back to running over the end.
    source->stop_at_epoch_end(false);
    EXPECT_EQ(labels(*source, 1).size(), static_cast<size_t>(batch));
  }
}

// B8: 5 items, batch 8: the batch goes on with the next epoch.
TEST(Prefetch, BatchLargerThanTheSet) {
  const auto source = prefetcher(std::make_shared<CountingDataset>(5, 2, 2), 8, {2, 1}, false);
  EXPECT_EQ(labels(*source, 2), (std::vector<int>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0}));
}

TEST(Prefetch, ErrorsReachTheRightBatch) {
  const auto dataset =
      std::make_shared<CountingDataset>(10, 4, 5, std::vector<int64_t>{9});  // the last of ten
  for (int threads : {1, 4}) {
    const auto source = prefetcher(dataset, 3, {8, threads}, /*shuffle=*/false);
    EXPECT_EQ(labels(*source, 3), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    for (int again = 0; again < 2; ++again) {
      EXPECT_CONTAINS(message_of([&] { labels(*source, 1); }), "item 9: cannot be read");
    }
    EXPECT_EQ(source->position(), 9);
    source->seek(0);
    EXPECT_EQ(labels(*source, 1), (std::vector<int>{0, 1, 2}));
  }
}

TEST(Prefetch, SkippedItemsAreReplacedAndCounted) {
  const auto dataset = std::make_shared<CountingDataset>(10, 4, 5, std::vector<int64_t>{3, 9});
  for (int threads : {1, 4}) {
    const auto source = prefetcher(dataset, 5, {8, threads}, false, /*skip=*/true);
    EXPECT_EQ(labels(*source, 2), (std::vector<int>{0, 1, 2, 4, 4, 5, 6, 7, 8, 0}));
    EXPECT_EQ(source->skipped(), 2);
  }
}

TEST(Prefetch, NothingReadableIsAnError) {
  const auto dataset = std::make_shared<CountingDataset>(2, 4, 5, std::vector<int64_t>{0, 1});
  EXPECT_CONTAINS(message_of([&] {
                    prefetcher(dataset, 1, {1, 1}, false, true);
                  }),
                  "none of the 2 items can be read");
}

// Takes a while for each item, and counts those it was asked for.
class SlowDataset : public CountingDataset {
 public:
  explicit SlowDataset(int64_t items = 1000) : CountingDataset(items, 4, 5) {}
  void read(int64_t index, Sample& sample) const override {
    ++reads;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CountingDataset::read(index, sample);
  }
  mutable std::atomic<int> reads{0};
};

TEST(Prefetch, NothingIsReadBeforeTheFirstBatch) {
  const auto dataset = std::make_shared<SlowDataset>();
  const auto source = prefetcher(dataset, 3, {8, 4});
  source->seek(30);
  source->stop_at_epoch_end(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset->reads, 1);  // the first item, for its size
}

// The destructor returns soon at any moment: before the first batch, with workers busy, waiting for
// room, or about to start. 64 items take 64 ms; a hang is the test's timeout.
TEST(Prefetch, StopsAtAnyMoment) {
  const auto dataset = std::make_shared<SlowDataset>();
  for (int round = 0; round < 40; ++round) {
    const auto source = prefetcher(dataset, 64, {1 + round % 3, 1 + round % 4});
    if (round % 4 == 0) continue;
    const auto small = prefetcher(dataset, 1, {1 + round % 3, 1 + round % 4});
    take(*small, round % 5);
    if (round % 2) small->seek(5);
    std::this_thread::sleep_for(std::chrono::microseconds(150 * round));
  }
  SUCCEED();
}

// At the end of a test pass nothing of the next one is made in vain, and the next one comes all the
// same when it is asked for.
TEST(Prefetch, NothingIsMadeBeyondAPass) {
  const auto dataset = std::make_shared<SlowDataset>(9);
  const auto source = prefetcher(dataset, 3, {4, 2}, /*shuffle=*/false);
  source->stop_at_epoch_end(true);
  EXPECT_EQ(labels(*source, 3), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(dataset->reads, 1 + 9);
  EXPECT_EQ(labels(*source, 4), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2}));
}

TEST(Prefetch, QueueIsBounded) {
  const auto dataset = std::make_shared<SlowDataset>();
  const auto source = prefetcher(dataset, 2, {3, 2});
  take(*source, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // One batch consumed and three ahead, plus the first item for its size.
  EXPECT_EQ(dataset->reads, 1 + (1 + 3) * 2);
}

class MixedSizes : public CountingDataset {
 public:
  MixedSizes() : CountingDataset(4, 4, 5) {}
  void read(int64_t index, Sample& s) const override {
    CountingDataset::read(index, s);
    s.height = index == 2 ? 2 : 4;
  }
};

TEST(Batch, DifferingSizesNeedBatchOneOrACrop) {
  const auto dataset = std::make_shared<MixedSizes>();
  std::atomic<bool> never{false};
  const auto run = [&](int crop, int64_t batch_size) {
    TransformSpec spec;
    spec.crop_size = crop;
    const BatchMaker maker(dataset, Transformer(spec, Phase::kTest), {}, batch_size, false);
    Batch batch;
    std::vector<int> heights;
    for (int64_t at = 0; at < 4; at += batch_size) {
      maker.make(at, at + batch_size, batch, never);
      if (batch.error) std::rethrow_exception(batch.error);
      heights.push_back(batch.size.height);
    }
    return heights;
  };
  EXPECT_EQ(run(0, 1), (std::vector<int>{4, 4, 2, 4}));
  EXPECT_EQ(run(2, 4), (std::vector<int>{2}));
  EXPECT_CONTAINS(message_of([&] { run(0, 2); }), "item 2 is 1x2x5, but item 0 is 1x4x5");
  EXPECT_CONTAINS(message_of([&] { run(3, 1); }), "crop_size 3 is larger than item 2");
}

}  // namespace
}  // namespace kinet
