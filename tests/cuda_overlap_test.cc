// What moves between host and device beside the layers: batches that come ahead. On the emulated
// device with lazy streams, which do all work as late as CUDA allows, so that a wait that is
// missing shows in the numbers. ctest: labels=unit,core device timeout=240
#include <cmath>

#include "src/net/batch_upload.h"
#include "tests/cuda/device_under_test.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

constexpr size_t kFloats = 1000;

class OverlapTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    use_lazy_streams(true);
  }
  void TearDown() override {
    device_.reset();
    use_lazy_streams(false);
    DeviceTest::TearDown();
  }
  std::shared_ptr<float[]> host(float value) const {
    std::shared_ptr<float[]> memory = device_->allocate_host(kFloats);
    std::fill_n(memory.get(), kFloats, value);
    return memory;
  }
};

TEST_F(OverlapTest, WhatComesAsideIsSeenBehindFollow) {
  float* const block = device_->allocate(kFloats);
  const auto values = host(3), back = host(NAN);
  const uint64_t ticket = device_->upload_aside(block, values.get(), kFloats);
  device_->follow(ticket);
  device_->download(back.get(), block, kFloats);
  device_->synchronize();
  EXPECT_EQ(back[0], 3);
  EXPECT_EQ(back[kFloats - 1], 3);
  device_->wait(ticket);
  device_->wait(ticket);  // is spent: nothing
  device_->release(block);
}

TEST_F(OverlapTest, WhatComesAsideWaitsForItsMark) {
  float* const block = device_->allocate(kFloats);
  const auto values = host(3), back = host(NAN);
  device_->fill(block, 1, kFloats);
  device_->download(back.get(), block, kFloats);
  const uint64_t mark = device_->mark();
  device_->fill(block, 2, kFloats);  // behind the mark: may come before or after
  device_->wait(device_->upload_aside(block, values.get(), kFloats, mark));
  EXPECT_EQ(back[0], 1);  // the copy that the mark is behind has read what was there before
  device_->synchronize();
  EXPECT_EQ(back[kFloats - 1], 1);
  device_->wait(mark);
  device_->release(block);
}

#ifndef KINET_TEST_ON_GPU
// Planted: the same without follow(), or with a mark that is too early. The emulation has to show
// it.
TEST_F(OverlapTest, AWaitThatIsMissingWouldBeSeen) {
  float* const block = device_->allocate(kFloats);
  const auto values = host(3), back = host(NAN);
  device_->synchronize();
  const uint64_t ticket = device_->upload_aside(block, values.get(), kFloats);
  device_->download(back.get(), block, kFloats);  // no follow
  device_->synchronize();
  EXPECT_EQ(back[0], 0);
  device_->wait(ticket);

  const uint64_t early = device_->mark();
  device_->fill(block, 1, kFloats);
  device_->wait(device_->upload_aside(block, values.get(), kFloats, early));
  device_->download(back.get(), block, kFloats);
  device_->synchronize();
  EXPECT_EQ(back[0], 1);  // the fill came after the upload
  device_->wait(early);
  device_->release(block);
}
#endif

// Batch n holds n everywhere. Memory that is given back is spoilt at once, as a maker would.
class CountingFeed : public BatchFeed {
 public:
  explicit CountingFeed(std::shared_ptr<DeviceMemory> device) : device_(std::move(device)) {}
  Batch take() override {
    const Batch batch = next();
    ahead_ = {};
    ++number;
    return batch;
  }
  Batch peek() override { return made ? next() : Batch{}; }
  void lie_in(std::shared_ptr<DeviceMemory>) override { told = true; }
  void seek(int to) {
    number = to;
    ahead_ = {};
  }

  int number = 0;
  int64_t items = 4;
  bool made = true, told = false;
  int held = 0;  // batches that somebody has

 private:
  Batch next() {
    if (ahead_.owner != nullptr) return ahead_;
    const auto count = static_cast<size_t>(items) * 8;
    const std::shared_ptr<float[]> memory = device_->allocate_host(count + items);
    std::fill_n(memory.get(), count + items, static_cast<float>(number));
    memory_.push_back(memory);  // giving it back would wait for the device
    ++held;
    ahead_.shapes = {Shape{items, 8}, Shape{items}};
    ahead_.values = {memory.get(), memory.get() + count};
    ahead_.owner = std::shared_ptr<const void>(memory.get(), [memory, count, this](const void*) {
      std::fill_n(memory.get(), count, NAN);
      --held;
    });
    return ahead_;
  }
  const std::shared_ptr<DeviceMemory> device_;
  std::vector<std::shared_ptr<float[]>> memory_;
  Batch ahead_;
};

class BatchUploadTest : public OverlapTest {
 protected:
  void SetUp() override {
    OverlapTest::SetUp();
    if (IsSkipped()) return;
    feed_ = std::make_unique<CountingFeed>(device_);
    for (Tensor* top : {&data_, &label_}) {
      auto buffer = std::make_shared<Buffer>();
      buffer->attach(device_);
      *top = Tensor(top == &data_ ? Shape{4, 8} : Shape{4}, buffer, nullptr);
    }
    upload_ = std::make_unique<BatchUpload>(
        device_, *feed_,
        std::vector<BatchUpload::Top>{{&data_, true, false}, {&label_, true, true}});
  }
  void TearDown() override {
    upload_.reset();
    feed_.reset();
    data_ = label_ = Tensor();
    OverlapTest::TearDown();
  }
  // What layers that run now see, read in the device's order.
  void read(const Tensor& top) {
    const auto count = static_cast<size_t>(top.count());
    seen_.push_back({device_->allocate_host(count), count});
    device_->download(seen_.back().first.get(), top.device_data(), count);
  }
  void expect_seen(const std::vector<float>& batches) {
    device_->synchronize();
    ASSERT_EQ(seen_.size(), 2 * batches.size());
    for (size_t i = 0; i < seen_.size(); ++i) {
      for (size_t j = 0; j < seen_[i].second; ++j) {
        ASSERT_EQ(seen_[i].first[j], batches[i / 2]) << "pass " << i / 2 << ", float " << j;
      }
    }
  }
  void pass() {
    upload_->forward();
    EXPECT_EQ(label_.data()[0], static_cast<float>(feed_->number - 1));
    read(data_), read(label_);
    upload_->begin_next();
    EXPECT_LE(feed_->held, 2);  // that of the pass, and the next one
  }

  std::unique_ptr<CountingFeed> feed_;
  Tensor data_{Shape{1}}, label_{Shape{1}};
  std::unique_ptr<BatchUpload> upload_;
  std::vector<std::pair<std::shared_ptr<float[]>, size_t>> seen_;
};

// Without one wait of the host for the device: all passes are asked for, then done.
TEST_F(BatchUploadTest, EveryPassSeesItsBatch) {
  EXPECT_TRUE(feed_->told);
  for (int i = 0; i < 6; ++i) pass();
  expect_seen({0, 1, 2, 3, 4, 5});
}

TEST_F(BatchUploadTest, TheBatchGoesUpBeforeItsPass) {
  pass();
  EXPECT_EQ(feed_->held, 1);  // batch 1, which goes up; batch 0 has gone up and is free
  feed_->made = false;
  pass();
  EXPECT_EQ(feed_->held, 0);
  pass();
  feed_->made = true;
  upload_->begin_next();  // after backward it is there
  upload_->begin_next();
  EXPECT_EQ(feed_->held, 1);
  pass();
  expect_seen({0, 1, 2, 3});
}

TEST_F(BatchUploadTest, ABatchThatWasNotForeseenComesInItsTurn) {
  pass(), pass();
  feed_->seek(7);
  pass(), pass();
  feed_->seek(7);
  feed_->items = 3;
  pass(), pass();
  EXPECT_EQ(data_.shape(), (Shape{3, 8}));
  feed_->seek(20);
  feed_->items = 9;  // larger than what there is room for
  pass(), pass();
  feed_->items = 2;
  pass(), pass(), pass();
  feed_->seek(5);
  feed_->items = 11;
  upload_->begin_next();
  pass();
  expect_seen({0, 1, 7, 8, 7, 8, 20, 21, 22, 23, 24, 5});
}

class OverlapSolverTest : public SolverTest {
 protected:
  void SetUp() override {
    SolverTest::SetUp();
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
    options_.device = backend_under_test().open(0);
  }
  void TearDown() override {
    use_lazy_streams(false);
    use_thread_order(thread_orders().front());
    EXPECT_EQ(device_reports(), "");
  }
  std::string text(int prefetch, const std::string& fields) const {
    return solver_text(
        data_layer(folder_, "train", 4, "TRAIN", fmt::format("prefetch: {}", prefetch)) +
            data_layer(folder_, "test", 3, "TEST", fmt::format("prefetch: {}", prefetch)) +
            classifier(),
        "base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 random_seed: 3 iter_size: 2 " + fields);
  }
};

// prefetch: 0 makes each batch when it is needed, so none can go up ahead.
TEST_F(OverlapSolverTest, AheadOrNotTheNumbersAreTheSame) {
  const std::string fields = "max_iter: 8 test_interval: 3" + kNoSnapshot;
  TestRun plain(text(0, fields), options_);
  plain.run();
  for (const std::string& order : thread_orders()) {
    use_thread_order(order);
    use_lazy_streams(true);
    for (const int prefetch : {0, 1, 4}) {
      TestRun ahead(text(prefetch, fields), options_);
      ahead.run();
      EXPECT_EQ(ahead.seen.losses, plain.seen.losses) << order << ", prefetch " << prefetch;
      EXPECT_EQ(state_of(*ahead.solver), state_of(*plain.solver)) << order;
      ASSERT_EQ(ahead.seen.tests.size(), plain.seen.tests.size());
      for (size_t t = 0; t < plain.seen.tests.size(); ++t) {
        EXPECT_EQ(ahead.seen.tests[t].outputs[0].value, plain.seen.tests[t].outputs[0].value);
      }
    }
  }
}

TEST_F(OverlapSolverTest, AStateKnowsNothingOfTheBatchThatIsAhead) {
  use_lazy_streams(true);
  const std::string fields = "snapshot_prefix: 'r' ";
  TestRun whole(text(4, fields + "max_iter: 8" + kNoSnapshot), options_);
  whole.run();
  TestRun first(text(4, fields + "max_iter: 5"), options_);
  first.run();
  ASSERT_EQ(first.seen.snapshots.size(), 1U);
  SolverOptions resumed = options_;
  resumed.resume = first.seen.snapshots[0].second;
  TestRun rest(text(4, fields + "max_iter: 8" + kNoSnapshot), resumed);
  rest.run();
  EXPECT_EQ(state_of(*rest.solver), state_of(*whole.solver));
}

}  // namespace
}  // namespace kinet
