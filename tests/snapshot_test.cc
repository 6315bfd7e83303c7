// Snapshots: what the files hold, what is said about files that are wrong, and what a disk that is
// full, a folder that is missing or a kill in mid-write costs.
#include "src/net/snapshot.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "src/base/files.h"
#include "src/net/checksum.h"
#include "src/proto/kinet/solverstate.pb.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

class SnapshotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_, "train", 23);
    options_.output_folder = folder_.str();
  }
  std::string text(const std::string& more = "", int width = 8) const {
    std::string net = data_layer(folder_, "train", 4, "TRAIN") + classifier();
    if (width != 8)
      net.replace(net.find("num_output: 8"), 13, "num_output: " + std::to_string(width));
    return solver_text(net,
                       "base_lr: 0.1 momentum: 0.9 max_iter: 6 snapshot: 3 snapshot_prefix: 's' "
                       "random_seed: 4 " +
                           more);
  }
  std::string resume_error(const std::string& file, const std::string& solver) const {
    SolverOptions options = options_;
    options.resume = file;
    return message_of([&] { TestRun(solver, options); });
  }
  std::string state() const { return folder_ / "s_iter_6.solverstate"; }
  std::string model() const { return folder_ / "s_iter_6.caffemodel"; }

  TemporaryFolder folder_;
  SolverOptions options_;
};

TEST_F(SnapshotTest, FilesHoldWhatCaffeWrites) {
  TestRun r(text(), options_);
  r.run();
  NetParameter net;
  ASSERT_TRUE(net.ParseFromString(read_file(model())));
  EXPECT_EQ(net.name(), "small");
  ASSERT_EQ(net.layer_size(), r.solver->train_net().layer_count());
  EXPECT_EQ(net.layer(0).type(), "MnistData");
  EXPECT_EQ(net.layer(0).top_size(), 2);
  const LayerParameter& ip1 = net.layer(1);
  EXPECT_EQ(ip1.name(), "ip1");
  ASSERT_EQ(ip1.blobs_size(), 2);
  EXPECT_EQ(ip1.blobs(0).shape().dim(0), 8);
  EXPECT_EQ(ip1.blobs(0).shape().dim(1), 36);
  EXPECT_EQ(ip1.blobs(0).data(5), r.solver->train_net().layer(1).blobs()[0].data()[5]);

  SolverState state_proto;
  ASSERT_TRUE(state_proto.ParseFromString(read_file(state())));
  EXPECT_EQ(state_proto.iter(), 6);
  EXPECT_EQ(state_proto.learned_net(), model());
  ASSERT_EQ(state_proto.history_size(), 4);  // one entry a parameter: ip1, ip2, weights and bias
  EXPECT_EQ(state_proto.history(2).shape().dim(0), 3);
  EXPECT_EQ(state_proto.history(0).data(5), r.solver->history()[5]);
  EXPECT_EQ(state_proto.kinet().position(0).position(), 24);
  EXPECT_EQ(state_proto.kinet().seed(), 4u);
}

// Second moments follow all first ones; buffers have entries of zeros between the parameters.
TEST_F(SnapshotTest, HistoryIsInCaffesOrder) {
  const std::string norm = "layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'ip1' }\n";
  TestRun r(
      solver_text(data_layer(folder_, "train", 4, "TRAIN") + classifier(norm),
                  "type: 'Adam' base_lr: 0.01 momentum: 0.9 max_iter: 2 snapshot_prefix: 'a'"),
      options_);
  r.run();
  const Snapshot s = read_snapshot(folder_ / "a_iter_2.solverstate");
  ASSERT_EQ(s.history.size(), 14u);  // ip1 2, bn 3, ip2 2, twice
  for (int i : {2, 3, 4, 9, 10, 11}) {
    for (const float x : s.history[i].data) EXPECT_EQ(x, 0) << "buffer " << i;
  }
  EXPECT_EQ(s.history[0].shape, (Shape{8, 36}));
  EXPECT_EQ(s.history[7].shape, (Shape{8, 36}));
  for (const float v : s.history[7].data) EXPECT_GE(v, 0);  // squares
  EXPECT_EQ(s.history[0].data[3], r.solver->history()[3]);
  EXPECT_EQ(s.history[7].data[3], r.solver->history()[r.solver->history().size() / 2 + 3]);
}

// ---- wrong files (D5)
// ----------------------------------------------------------------------------

TEST_F(SnapshotTest, KindsOfFilesAreToldApart) {
  TestRun(text(), options_).run();
  EXPECT_CONTAINS(resume_error(model(), text()), "not a solver state (.solverstate) but a model");
  EXPECT_CONTAINS(resume_error(model(), text()), "--weights");
  SolverOptions options = options_;
  options.weights = {state()};
  const std::string swapped = message_of([&] { TestRun(text(), options); });
  EXPECT_CONTAINS(swapped, "not a model (.caffemodel) but a solver state");
  EXPECT_CONTAINS(swapped, "--resume");
  EXPECT_CONTAINS(resume_error(folder_.write("t.prototxt", "base_lr: 1\n"), text()), "text");
  EXPECT_CONTAINS(resume_error(folder_.write("h.h5", "\x89HDF\r\n\x1a\n...."), text()), "HDF5");
  EXPECT_CONTAINS(resume_error(folder_.write("empty", ""), text()), "something else");
  EXPECT_CONTAINS(resume_error(folder_ / "absent.solverstate", text()), "cannot be read");
  EXPECT_CONTAINS(resume_error(folder_.str(), text()), "is a folder");
}

TEST_F(SnapshotTest, CutOffFilesAreNoticed) {
  TestRun(text(), options_).run();
  const std::string whole_state = read_file(state()), whole_model = read_file(model());
  for (const double part : {0.01, 0.25, 0.5, 0.75, 0.999}) {
    const auto cut = [&](const std::string& bytes) {
      return bytes.substr(0, std::max<size_t>(2, static_cast<size_t>(part * bytes.size())));
    };
    folder_.write("s_iter_6.solverstate", cut(whole_state));
    EXPECT_CONTAINS(resume_error(state(), text()), "s_iter_6.solverstate: damaged or cut off");
    folder_.write("s_iter_6.solverstate", whole_state);
    folder_.write("s_iter_6.caffemodel", cut(whole_model));
    EXPECT_CONTAINS(resume_error(state(), text()), "s_iter_6.caffemodel");
    SolverOptions options = options_;
    options.weights = {model()};
    EXPECT_CONTAINS(message_of([&] { TestRun(text(), options); }), "cut off");
    folder_.write("s_iter_6.caffemodel", whole_model);
  }
}

// Cut exactly between two fields, where the rest is well formed.
TEST_F(SnapshotTest, CutOffAtAFieldsEndIsNoticed) {
  TestRun(text(), options_).run();
  SolverState s;
  ASSERT_TRUE(s.ParseFromString(read_file(state())));
  s.clear_kinet();
  s.clear_kinet_checksum();
  folder_.write("s_iter_6.solverstate", s.SerializeAsString());
  EXPECT_CONTAINS(resume_error(state(), text()), "cut off");
  NetParameter m;
  ASSERT_TRUE(m.ParseFromString(read_file(model())));
  m.clear_kinet_checksum();
  m.mutable_layer()->RemoveLast();
  std::string bytes = m.SerializeAsString();
  append_checksum(bytes);
  EXPECT_CONTAINS(message_of([&] { Model::parse(bytes, "m"); }), "layers are there");
}

TEST_F(SnapshotTest, AnotherNetOrSolverIsRefused) {
  TestRun(text(), options_).run();
  const std::string wide = resume_error(state(), text("", 9));
  EXPECT_CONTAINS(wide, "8x36");
  EXPECT_CONTAINS(wide, "9x36");
  EXPECT_CONTAINS(resume_error(state(), text("type: 'Nesterov'")), "type SGD");
  std::string renamed = text();
  renamed.replace(renamed.find("name: 'ip2'"), 11, "name: 'fc2'");
  EXPECT_CONTAINS(resume_error(state(), renamed), "not in the file: fc2; not in the net: ip2");
  SolverOptions both = options_;
  both.resume = state();
  both.weights = {model()};
  EXPECT_CONTAINS(message_of([&] { TestRun(text(), both); }), "exclude each other");
}

TEST_F(SnapshotTest, MovedFilesAreFoundAndMismatchesNoticed) {
  TestRun(text(), options_).run();
  const TemporaryFolder other;
  fs::copy(state(), other / "s_iter_6.solverstate");
  SolverOptions options = options_;
  options.resume = other / "s_iter_6.solverstate";
  EXPECT_EQ(TestRun(text(), options).solver->iteration(), 6);  // by the path inside
  fs::copy(model(), other / "s_iter_6.caffemodel");
  fs::remove(model());
  EXPECT_EQ(TestRun(text(), options).solver->iteration(), 6);  // beside the state
  EXPECT_CONTAINS(resume_error(state(), text()), "its model is missing");
  fs::copy(folder_ / "s_iter_3.caffemodel", model());
  EXPECT_CONTAINS(resume_error(state(), text()), "not the model");
}

// ---- places that cannot be written (D4)
// ----------------------------------------------------------

TEST_F(SnapshotTest, AMissingFolderIsFoundBeforeTraining) {
  const std::string fields =
      "base_lr: 0.1 max_iter: 6 snapshot_prefix: '" + folder_ / "no/such/s" + "'";
  const std::string message = message_of([&] {
    TestRun(solver_text(data_layer(folder_, "train", 4, "TRAIN") + classifier(), fields));
  });
  EXPECT_CONTAINS(message, "snapshots cannot be written");
  EXPECT_CONTAINS(message, "no/such");
  EXPECT_CONTAINS(message, "hint");
}

TEST_F(SnapshotTest, AFileInTheWayIsFoundBeforeTraining) {
  folder_.write("taken", "x");
  EXPECT_CONTAINS(message_of([&] {
                    TestRun(solver_text(data_layer(folder_, "train", 4, "TRAIN") + classifier(),
                                        "base_lr: 0.1 max_iter: 6 snapshot_prefix: 'taken/s'"),
                            options_);
                  }),
                  "snapshots cannot be written");
}

// As another user, since root may write anywhere.
TEST_F(SnapshotTest, AReadOnlyFolderIsFoundBeforeTraining) {
  const TemporaryFolder locked;
  fs::permissions(locked.str(), fs::perms(0555));
  const std::string solver = solver_text(
      "layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: 2 "
      "dim: "
      "3 } } } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { "
      "num_output: 3 } } layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 'y' }",
      "base_lr: 0.1 max_iter: 6 snapshot_prefix: '" + locked / "s" + "'");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(3);
    try {
      TestRun(solver, {});
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("Permission denied") == std::string::npos ? 2 : 0);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: no error, 2: another one, 3: setuid failed";
}

// A limit on the size of files stands for the full disk.
class FileSizeLimit {
 public:
  FileSizeLimit() {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  void set(rlim_t bytes) const {
    const rlimit limit{bytes, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  void lift() const { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(SnapshotTest, AFullDiskCostsOneSnapshotAndAWarning) {
  const FileSizeLimit limit;
  TestRun r(text(), options_);
  r.seen.after_iteration = [&](int64_t i) {
    if (i == 4) limit.set(600);
  };
  std::string message;
  try {
    r.run();
  } catch (const Error& error) {
    message = error.what();
  }
  limit.lift();
  EXPECT_EQ(r.solver->iteration(), 6);  // the run went on to its end
  ASSERT_EQ(r.seen.warnings.size(), 1u);
  EXPECT_CONTAINS(r.seen.warnings[0], "s_iter_6.caffemodel");
  EXPECT_CONTAINS(r.seen.warnings[0], "the last one is " + folder_ / "s_iter_3.solverstate");
  EXPECT_CONTAINS(message, "no snapshot of iteration 6");  // and so the program ends with a fault
  EXPECT_EQ(r.seen.finishes.size(), 1u);
  SolverOptions options = options_;
  options.resume = folder_ / "s_iter_3.solverstate";
  EXPECT_EQ(TestRun(text(), options).solver->iteration(), 3);
  for (const auto& entry : fs::directory_iterator(folder_.str())) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  }
}

TEST_F(SnapshotTest, AFullDiskInMidRunIsForgottenWhenALaterSnapshotWorks) {
  const FileSizeLimit limit;
  TestRun r(text(), options_);
  r.seen.after_iteration = [&](int64_t i) { i == 3 ? limit.set(600) : limit.lift(); };
  EXPECT_EQ(r.run().last_snapshot, state());
  EXPECT_EQ(r.seen.warnings.size(), 1u);
  EXPECT_EQ(r.seen.snapshots.size(), 1u);

  TestRun strict(text("on_snapshot_error: STOP"), options_);
  strict.seen.after_iteration = [&](int64_t) { limit.set(600); };
  EXPECT_CONTAINS(message_of([&] { strict.run(); }), "cannot be written");
  limit.lift();
  EXPECT_EQ(strict.solver->iteration(), 3);
}

// A child that writes snapshots as fast as it can is killed at many moments: what is on the disk
// under the final names can always be resumed from.
TEST_F(SnapshotTest, AKillInMidWriteLeavesALoadableSnapshot) {
  std::string fast = text("", 64);
  fast.replace(fast.find("max_iter: 6 snapshot: 3"), 23, "max_iter: 100000000 snapshot: 1");
  { TestRun(text("", 64), options_).run(); }
  int loaded = 0;
  for (int round = 0; round < 6; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      TestRun r(fast, options_);
      r.run();
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + 23 * round));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    for (const auto& entry : fs::directory_iterator(folder_.str())) {
      if (entry.path().extension() != ".solverstate") continue;
      SolverOptions options = options_;
      options.resume = entry.path().string();
      EXPECT_NO_THROW(TestRun(fast, options)) << entry.path();
      ++loaded;
    }
    for (const auto& entry : fs::directory_iterator(folder_.str())) {  // keep the next round short
      if (entry.path().filename().string().starts_with("s_iter_") &&
          entry.path().filename().string().find("_6.") == std::string::npos) {
        fs::remove(entry.path());
      }
    }
  }
  EXPECT_GT(loaded, 6) << "the children wrote nothing: give them more time";
}

}  // namespace
}  // namespace kinet
