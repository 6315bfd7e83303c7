// Files that changed on the disk after they were written: every flipped bit of a state or a model
// is noticed before anything is computed with it, and so are numbers that no run could have
// written.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "src/base/files.h"
#include "src/net/checksum.h"
#include "src/proto/kinet/solverstate.pb.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

class DamagedState : public SolverTest {
 protected:
  void SetUp() override {
    SolverTest::SetUp();
    TestRun(text(), options_).run();
  }
  std::string text(const std::string& more = "") const {
    return solver_text(net(),
                       "base_lr: 0.1 momentum: 0.9 max_iter: 4 snapshot_prefix: 's' "
                       "random_seed: 4 " +
                           more);
  }
  std::string state() const { return folder_ / "s_iter_4.solverstate"; }
  std::string model() const { return folder_ / "s_iter_4.caffemodel"; }

  // The message, or "" when the run can go on.
  std::string error_of_use(const SolverOptions& options, const std::string& more = "") const {
    try {
      TestRun(text(more), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 2) << error.what();
      return error.what();
    }
    return "";
  }
  std::string resume_error(const std::string& more = "") const {
    SolverOptions options = options_;
    options.resume = state();
    return error_of_use(options, more);
  }
  std::string weights_error() const {
    SolverOptions options = options_;
    options.weights = {model()};
    return error_of_use(options);
  }

  // How many of the file's bits (every `step`th) can be flipped without a word.
  int unnoticed(const std::string& file, size_t step,
                const std::function<std::string()>& use) const {
    const std::string whole = read_file(file);
    EXPECT_EQ(use(), "");
    int count = 0;
    for (size_t bit = 0; bit < whole.size() * 8; bit += step) {
      std::string bytes = whole;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      write_file_atomic(file, bytes);
      count += use().empty();
    }
    write_file_atomic(file, whole);
    return count;
  }

  // Resumes from the state with `change` made to it and its checksum put right again.
  std::string error_with(const std::function<void(SolverState&)>& change) const {
    const std::string whole = read_file(state());
    SolverState proto;
    EXPECT_TRUE(proto.ParseFromString(whole));
    proto.clear_kinet_checksum();
    change(proto);
    std::string bytes = proto.SerializeAsString();
    append_checksum(bytes);
    write_file_atomic(state(), bytes);
    const std::string message = resume_error();
    write_file_atomic(state(), whole);
    return message;
  }
};

TEST_F(DamagedState, AFlippedBitOfAStateIsNoticed) {
  EXPECT_EQ(unnoticed(state(), 61, [&] { return resume_error(); }), 0);
}

TEST_F(DamagedState, AFlippedBitOfAModelIsNoticed) {
  EXPECT_EQ(unnoticed(model(), 61, [&] { return weights_error(); }), 0);
}

TEST_F(DamagedState, TheMessageSaysWhatDiffers) {
  std::string bytes = read_file(state());
  bytes[bytes.size() / 2] ^= 1;  // in the history
  write_file_atomic(state(), bytes);
  EXPECT_CONTAINS(resume_error(), "s_iter_4.solverstate: is damaged: checksum differs");
}

TEST_F(DamagedState, AChecksumCutOffIsNoticed) {
  for (const std::string& file : {state(), model()}) {
    const std::string whole = read_file(file);
    write_file_atomic(file, whole.substr(0, whole.size() - 11));
    EXPECT_CONTAINS(file == state() ? resume_error() : weights_error(), "checksum is missing");
    write_file_atomic(file, whole);
  }
}

// Caffe writes no checksum, and neither did the first version of kinet's own files.
TEST_F(DamagedState, FilesWithoutAChecksumAreTaken) {
  NetParameter proto;
  ASSERT_TRUE(proto.ParseFromString(read_file(model())));
  proto.clear_kinet_checksum();
  proto.mutable_kinet()->set_format_version(1);
  write_file_atomic(model(), proto.SerializeAsString());
  EXPECT_EQ(weights_error(), "");
  proto.clear_kinet();
  write_file_atomic(model(), proto.SerializeAsString());
  EXPECT_EQ(weights_error(), "");
}

TEST_F(DamagedState, NumbersThatNoRunWrites) {
  const auto position = [](SolverState& s) { return s.mutable_kinet()->mutable_position(0); };
  EXPECT_EQ(error_with([](SolverState&) {}), "");
  for (const int64_t wrong : {int64_t{-1}, INT64_MIN, INT64_MAX, (int64_t{1} << 53) + 1}) {
    EXPECT_CONTAINS(error_with([&](SolverState& s) { position(s)->set_position(wrong); }),
                    "damaged: it says layer 'data' at item");
  }
  EXPECT_CONTAINS(error_with([&](SolverState& s) { position(s)->set_items(-5); }), "damaged");
  EXPECT_CONTAINS(error_with([&](SolverState& s) { position(s)->set_batch_size(-5); }), "damaged");
  EXPECT_CONTAINS(error_with([](SolverState& s) { s.set_iter(-1); }), "damaged");
  EXPECT_CONTAINS(error_with([](SolverState& s) { s.mutable_kinet()->set_iter_size(0); }),
                  "iter_size 0");
  EXPECT_CONTAINS(error_with([](SolverState& s) { s.mutable_kinet()->set_tested_iteration(9); }),
                  "a test at iteration 9 of 4");
  EXPECT_CONTAINS(error_with([](SolverState& s) {
                    s.mutable_kinet()->mutable_early_stop()->set_best_iteration(-2);
                  }),
                  "damaged");
  EXPECT_CONTAINS(error_with([&](SolverState& s) {
                    *s.mutable_kinet()->add_position() = s.kinet().position(0);
                  }),
                  "two positions of 'data'");
}

// A state of Caffe says nothing of positions: they follow from three numbers of 31 bits each.
TEST_F(DamagedState, PositionsThatCannotBeCounted) {
  SolverState proto;
  ASSERT_TRUE(proto.ParseFromString(read_file(state())));
  proto.clear_kinet();
  proto.clear_kinet_checksum();
  proto.set_iter(INT32_MAX);
  write_file_atomic(state(), proto.SerializeAsString());
  NetParameter weights;
  ASSERT_TRUE(weights.ParseFromString(read_file(model())));
  weights.clear_kinet();
  weights.clear_kinet_checksum();
  write_file_atomic(model(), weights.SerializeAsString());
  EXPECT_CONTAINS(resume_error("iter_size: 2147483647"), "more than a run can count");
}

// 250 letters fit a file system, but not with "_iter_4.caffemodel" behind them.
TEST_F(DamagedState, ANameTooLongIsFoundBeforeTraining) {
  const auto error_for = [&](int letters) {
    return message_of([&] {
      TestRun(solver_text(net(), "base_lr: 0.1 max_iter: 4 snapshot_prefix: '" +
                                     std::string(letters, 'y') + "'"),
              options_);
    });
  };
  EXPECT_CONTAINS(error_for(250), "snapshots cannot be written");
  EXPECT_CONTAINS(error_for(250), "too long");
  TestRun fits(solver_text(net(), "base_lr: 0.1 max_iter: 1 snapshot_prefix: '" +
                                      std::string(200, 'y') + "'"),
               options_);
  fits.run();
  EXPECT_TRUE(fs::exists(folder_ / (std::string(200, 'y') + "_iter_1.solverstate")));
}

}  // namespace
}  // namespace kinet
