// Compressed pushes through servers: that nets are trained over every transport, what goes over the
// wire as computed on paper, which runs are the same, and what makes no sense.
// ctest: labels=unit,core,threads timeout=300
#include "src/sync/compress.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "src/sync/server_rank.h"
#include "tests/sync_ranks.h"

namespace kinet {
namespace {

class CompressTest : public SolverTest {
 protected:
  std::string text(const std::string& sync, int iterations = 60,
                   const std::string& more = "momentum: 0.9",
                   const std::string& between = kRelu) const {
    return solver_text(net(between),
                       fmt::format("base_lr: 0.05 max_iter: {} display: 10 random_seed: 5 {} {} "
                                   "sync_param {{ {} }}",
                                   iterations, kNoSnapshot, more, sync));
  }
  struct Seen {
    std::vector<float> weights;
    size_t floats = 0, buffers = 0;
    double loss = 0;
    uint64_t puts = 0, bytes = 0;  // of a worker, an iteration
    std::vector<ParameterInfo> parameters;
  };
  // The bytes are those between the gradients 5 and 15 of the last worker.
  Seen train(const std::string& text, SyncRun run) {
    std::array<TransportCounters, 2> at;
    run.with_communicator = [&](Rank rank, TestRun& test, Communicator& link) {
      if (rank + 1 != run.servers + run.workers) return;
      test.seen.after_iteration = [&at, &link, count = int64_t{0}](int64_t) mutable {
        ++count;
        if (count == 5 || count == 15) at[count == 5 ? 0 : 1] = link.counters();
      };
    };
    const std::vector<SyncRank> ranks = run_sync(text, run, options_);
    Seen out;
    for (const SyncRank& r : ranks) EXPECT_EQ(r.error, "");
    if (HasFailure()) return out;
    Net& net = ranks[0].run->solver->train_net();
    out.weights.assign(net.parameter_arena().begin(), net.parameter_arena().end());
    out.floats = ranks[0].run->solver->gradient_floats();
    out.buffers = ranks[0].run->solver->buffer_floats();
    out.loss = ranks[0].end.loss;
    out.puts = (at[1].puts - at[0].puts) / 10;
    out.bytes = (at[1].put_bytes - at[0].put_bytes) / 10;
    for (const ParameterInfo& p : net.parameters()) {
      if (!p.is_buffer) out.parameters.push_back(p);
    }
    return out;
  }
  static int servers_of(const std::string& sync) {
    return sync.find("servers: 2") != std::string::npos ? 2 : 1;
  }
};

class OverTransports : public CompressTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(OverTransports, EveryCodecTrains) {
  for (const std::string sync :
       {"model: 'bsp' servers: 1 compress: TOPK compress_ratio: 0.1",
        "model: 'bsp' servers: 2 compress: TOPK compress_ratio: 0.05 compress_warmup: 6",
        "model: 'bsp' servers: 1 compress: TOPK compress_ratio: 0.1 compress_momentum: false",
        "model: 'bsp' servers: 2 compress: TERNARY", "model: 'bsp' servers: 2 compress: SIGN",
        "model: 'bsp' servers: 1 compress: FP16", "model: 'asp' compress: TOPK compress_ratio: 0.1",
        "model: 'momentum_k_sync' compress: FP16", "model: 'dana_zero' compress: TERNARY",
        "model: 'local_sgd' local_steps: 4 compress: SIGN",
        "model: 'local_sgd' local_steps: 4 compress: TOPK compress_ratio: 0.1",
        "model: 'k_sync' variant: K_SYNC compress: SIGN",
        "model: 'sync_easgd' easgd_momentum: true compress: FP16"}) {
    SCOPED_TRACE(sync);
    SyncRun run;
    run.transport = GetParam();
    run.servers = servers_of(sync);
    run.workers = 3;
    run.step_seconds = {0.01, 0.013, 0.03};
    const Seen seen = train(text(sync), run);
    EXPECT_LT(seen.loss, 0.7);  // it begins at 1.1
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, OverTransports, ::testing::Values("inproc", "tcp", "sim"),
                         [](const auto& test) { return test.param; });

// ---- the wire -----------------------------------------------------------------------------------

TEST_F(CompressTest, BytesAreThoseOnPaper) {
  const std::string norm =
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'ip1' }\n" + kRelu;
  for (const int servers : {1, 2}) {
    for (const std::string& between : {kRelu, norm}) {
      for (const std::string codec : {"TOPK", "SIGN", "TERNARY", "FP16"}) {
        SCOPED_TRACE(fmt::format("{} of {} servers", codec, servers));
        SyncRun run;
        run.servers = servers;
        const Seen seen = train(text(fmt::format("model: 'bsp' servers: {} compress: {} "
                                                 "compress_ratio: 0.07",
                                                 servers, codec),
                                     20, "", between),
                                run);
        const SyncLayout layout{servers, 2, seen.floats, 0};
        uint64_t bytes = 0;
        for (int s = 0; s < servers; ++s) {
          const size_t begin = layout.begin(s), end = layout.end(s);
          if (codec == "TOPK") {
            bytes += 8 * static_cast<uint64_t>(
                             std::ceil(0.07 * static_cast<double>(end - begin) - 1e-6));
            continue;
          }
          const size_t bits = codec == "SIGN" ? 1 : codec == "TERNARY" ? 2 : 16;
          for (const ParameterInfo& p : seen.parameters) {
            const size_t from = std::max(p.offset, begin), to = std::min(p.offset + p.count, end);
            if (from < to) bytes += 4 + ((to - from) * bits + 31) / 32 * 4;
          }
        }
        const bool buffers = between != kRelu;
        if (buffers) bytes += seen.buffers * sizeof(float);
        EXPECT_EQ(seen.puts, static_cast<uint64_t>(servers) + (buffers ? 1 : 0));
        EXPECT_EQ(seen.bytes, bytes);
      }
    }
  }
}

// ---- the same as what ---------------------------------------------------------------------------

TEST_F(CompressTest, AllOfItIsNoCompression) {
  SyncRun run;
  run.workers = 3;
  const std::string bsp = "model: 'bsp' servers: 1 ";
  const Seen plain = train(text(bsp), run);
  const Seen all =
      train(text(bsp + "compress: TOPK compress_ratio: 1 compress_momentum: false"), run);
  EXPECT_EQ(all.weights, plain.weights);
  // Each of all values is sent at once, so masking leaves no momentum.
  const Seen none = train(text(bsp, 60, "momentum: 0"), run);
  EXPECT_EQ(train(text(bsp + "compress: TOPK compress_ratio: 1"), run).weights, none.weights);
  EXPECT_NE(none.weights, plain.weights);
  // Decay at the workers is decay at the servers, to rounding; the same with micro-batches.
  for (const std::string more : {"weight_decay: 0.05", "weight_decay: 0.05 iter_size: 2",
                                 "weight_decay: 0.05 regularization_type: 'L1'"}) {
    const Seen at_servers = train(text(bsp, 20, more + " momentum: 0"), run);
    const Seen at_workers =
        train(text(bsp + "compress: TOPK compress_ratio: 1", 20, more + " momentum: 0.9"), run);
    double most = 0;
    for (size_t i = 0; i < at_servers.weights.size(); ++i) {
      most = std::max<double>(most, std::abs(at_servers.weights[i] - at_workers.weights[i]));
    }
    EXPECT_LT(most, 1e-5) << more;
  }
}

TEST_F(CompressTest, TransportsAndRepetitionsChangeNoBit) {
  for (const std::string codec : {"TOPK compress_ratio: 0.1", "SIGN", "TERNARY", "FP16"}) {
    SCOPED_TRACE(codec);
    const std::string t = text("model: 'bsp' servers: 2 compress: " + codec, 20);
    SyncRun run;
    run.servers = 2;
    run.workers = 3;
    const Seen first = train(t, run);
    EXPECT_EQ(train(t, run).weights, first.weights);
    run.transport = "shm";
    EXPECT_EQ(train(t, run).weights, first.weights);
  }
}

// A memory clips before it, at clip / sqrt(N), so no push is longer than that but by what it adds.
TEST_F(CompressTest, AMemoryClipsAtTheWorkers) {
  const CompressSettings with = read_compress(
      SolverConfig::parse(text("model: 'bsp' servers: 1 compress: SIGN", 5, "clip_gradients: 3"),
                          "solver.prototxt")
          ->params(),
      9);
  EXPECT_EQ(with.clip, 1);
  ShardSetup shard;
  shard.clip = 3;
  with.leave_out(shard);
  EXPECT_EQ(shard.clip, -1);
}

// ---- set-up -------------------------------------------------------------------------------------

TEST_F(CompressTest, WhatMakesNoSenseIsRefusedWithAHint) {
  struct Wrong {
    std::string sync, more, message;
  };
  for (const Wrong& w : std::vector<Wrong>{
           {"compress: SIGN", "", "servers: 1"},
           {"servers: 1 compress: TOPK compress_ratio: 0", "", "compress_ratio must be"},
           {"servers: 1 compress: TOPK compress_ratio: 2", "", "compress_ratio must be"},
           {"servers: 1 compress: TOPK", "type: 'Adam' momentum: 0.9", "compress_momentum: false"},
           {"model: 'dana_zero' compress: TOPK", "momentum: 0.9", "compress_momentum: false"},
           {"model: 'momentum_k_sync' compress: TOPK", "momentum: 0.9", "compress_momentum: false"},
           {"model: 'sync_easgd' compress: SIGN", "", "pushes weights"},
           {"servers: 1 compress: SIGN", "lr_search_param { method: armijo }", "lr_search_param"},
           {"servers: 1 compress: ZIP", "", "TOPK"}}) {
    SCOPED_TRACE(w.sync);
    try {
      SolverConfig::parse(text(w.sync, 5, w.more), "solver.prototxt");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(w.message), std::string::npos) << error.what();
    }
  }
  for (const std::string sync :
       {"model: 'dana_zero' compress: TOPK compress_momentum: false", "model: 'asp' compress: SIGN",
        "model: 'local_sgd' compress: TOPK", "model: 'sapus' compress: SIGN"}) {
    EXPECT_NO_THROW(SolverConfig::parse(text(sync, 5, "momentum: 0.9"), "solver.prototxt")) << sync;
  }
}

TEST_F(CompressTest, AResumedRunSaysWhatIsLost) {
  const auto t = [&](const std::string& codec, int iterations) {
    return solver_text(net(),
                       fmt::format("base_lr: 0.05 momentum: 0.9 max_iter: {} snapshot: 5 "
                                   "random_seed: 5 snapshot_prefix: 'c' sync_param {{ model: "
                                   "'bsp' servers: 1 compress: {} }}",
                                   iterations, codec));
  };
  for (const std::string codec : {"TOPK", "FP16"}) {
    SyncRun run;
    const auto first = run_sync(t(codec, 5), run, options_);
    for (const SyncRank& r : first) ASSERT_EQ(r.error, "");
    SolverOptions options = options_;
    options.resume = first[0].run->seen.snapshots.back().second;
    const auto second = run_sync(t(codec, 10), run, options);
    for (const SyncRank& r : second) ASSERT_EQ(r.error, "");
    EXPECT_EQ(second[0].run->seen.has_note("had not sent yet (TOPK: residuals and momenta)"),
              codec == "TOPK");
  }
}

}  // namespace
}  // namespace kinet
