// What an iteration through servers costs the network, exactly as computed on paper: bytes, puts
// and messages of every rank, between its gradients (rounds) 5 and 15.
//
// Bulk-synchronous, N workers, S servers, P floats of parameters (as padded in the arena), an
// iteration:
//   worker   P floats of gradient, one put a bucket and slice; 1 message (header)
//   server   N times its slice of the weights, one put each
//   lead     N messages (answers), S - 1 commands, S - 1 norms
// The other servers, which are not counted here, put their slices likewise.
// Over shm with one server nothing is put: gradients and weights are used where they lie.
// ctest: labels=unit,core timeout=120
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "src/sync/server_rank.h"
#include "tests/sync_ranks.h"

namespace kinet {
namespace {

constexpr int64_t kFirst = 5, kLast = 15;

struct Traffic {
  uint64_t puts = 0, bytes = 0, messages = 0;  // sent, an iteration
  bool operator==(const Traffic&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Traffic& t) {
  return out << t.puts << " puts of " << t.bytes << " bytes, " << t.messages << " messages";
}

class SyncTrafficTest : public SolverTest {
 protected:
  struct Seen {
    std::vector<Traffic> by_rank;
    std::vector<float> weights;
    size_t floats = 0;
  };

  Seen train(SyncRun run, const std::string& comm, const std::string& body = kMiddle) {
    std::vector<std::array<Traffic, 2>> at(run.servers + run.workers);
    run.with_communicator = [&at](Rank rank, TestRun& test, Communicator& link) {
      test.seen.after_iteration = [&at, rank, &link, count = int64_t{0}](int64_t) mutable {
        ++count;
        if (count != kFirst && count != kLast) return;
        const TransportCounters c = link.counters();
        at[rank][count == kFirst ? 0 : 1] = {c.puts, c.put_bytes, c.messages_sent};
      };
    };
    const std::string text =
        solver_text(net(body), fmt::format("base_lr: 0.05 momentum: 0.9 max_iter: 20 "
                                           "random_seed: 5 {} sync_param {{ model: 'bsp' "
                                           "servers: {} }} comm_param {{ {} }}",
                                           kNoSnapshot, run.servers, comm));
    const std::vector<SyncRank> ranks = run_sync(text, run, options_);
    Seen out;
    for (const SyncRank& r : ranks) EXPECT_EQ(r.error, "");
    constexpr uint64_t kCount = kLast - kFirst;
    for (const auto& [first, last] : at) {
      const Traffic all{last.puts - first.puts, last.bytes - first.bytes,
                        last.messages - first.messages};
      EXPECT_EQ(all.puts % kCount + all.bytes % kCount + all.messages % kCount, 0u) << all;
      out.by_rank.push_back({all.puts / kCount, all.bytes / kCount, all.messages / kCount});
    }
    Net& trained = ranks[0].run->solver->train_net();
    out.floats = ranks[0].run->solver->gradient_floats();
    out.weights.assign(trained.parameter_arena().begin(), trained.parameter_arena().end());
    const std::span<const float> buffers = trained.buffer_arena();
    out.weights.insert(out.weights.end(), buffers.begin(), buffers.end());
    layers_ = layer_floats(trained);
    return out;
  }

  // Floats of each layer with parameters, the last layer first, as backward makes them final.
  static std::vector<size_t> layer_floats(const Net& net) {
    std::vector<size_t> begins;
    std::string last;
    for (const ParameterInfo& p : net.parameters()) {
      if (p.layer != last) begins.push_back(p.offset);
      last = p.layer;
    }
    std::vector<size_t> out;
    size_t end = const_cast<Net&>(net).parameter_arena().size();
    for (auto it = begins.rbegin(); it != begins.rend(); ++it) {
      out.push_back(end - *it);
      end = *it;
    }
    return out;
  }

  // Layers are put together until there are so many bytes; what is left goes at the end.
  static uint64_t buckets(const std::vector<size_t>& layers, size_t bytes) {
    uint64_t out = 0;
    size_t pending = 0;
    for (const size_t floats : layers) {
      pending += floats * sizeof(float);
      if (pending < bytes) continue;
      ++out;
      pending = 0;
    }
    return out + (pending > 0 ? 1 : 0);
  }

  // A second loss behind three more layers.
  static inline const std::string kMiddle =
      kRelu +
      "layer { name: 'a' type: 'InnerProduct' bottom: 'ip1' top: 'a' "
      "inner_product_param { num_output: 20 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
      "inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'c' type: 'InnerProduct' bottom: 'b' top: 'c' "
      "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss2' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' top: 'loss2' }\n";
  static inline const std::string kNorm =
      kMiddle +
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'a' top: 'norm' }\n"
      "layer { name: 'd' type: 'InnerProduct' bottom: 'norm' top: 'd' "
      "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss3' type: 'SoftmaxWithLoss' bottom: 'd' bottom: 'label' top: 'loss3' }\n";
  std::vector<size_t> layers_;
};

TEST_F(SyncTrafficTest, OneServer) {
  for (const std::string transport : {"inproc", "shm", "sim"}) {
    for (const size_t bucket : {1UL, 400UL, 1000UL, 1UL << 30}) {
      SCOPED_TRACE(fmt::format("{}, buckets of {}", transport, bucket));
      SyncRun run;
      run.transport = transport;
      const Seen seen = train(run, fmt::format("in_place: false bucket_bytes: {}", bucket));
      const uint64_t bytes = seen.floats * sizeof(float);
      EXPECT_EQ(seen.by_rank[0], (Traffic{2, 2 * bytes, 2}));
      const Traffic worker{buckets(layers_, bucket), bytes, 1};
      EXPECT_EQ(seen.by_rank[1], worker);
      EXPECT_EQ(seen.by_rank[2], worker);
    }
  }
  EXPECT_EQ(buckets(layers_, 1), layers_.size());
  EXPECT_GT(layers_.size(), 4u);
  EXPECT_EQ(buckets(layers_, 1UL << 30), 1u);
  EXPECT_GT(buckets(layers_, 400), 1u);
  EXPECT_LT(buckets(layers_, 400), layers_.size());
}

// Header, answer, and not a byte of a net; the weights are the same bits.
TEST_F(SyncTrafficTest, OneServerWhoseMemoryIsSeen) {
  SyncRun run;
  run.transport = "shm";
  run.workers = 3;
  const Seen copied = train(run, "in_place: false"), seen = train(run, "");
  EXPECT_EQ(seen.by_rank[0], (Traffic{0, 0, 3}));
  for (int w = 1; w <= 3; ++w) EXPECT_EQ(seen.by_rank[w], (Traffic{0, 0, 1}));
  EXPECT_EQ(seen.weights, copied.weights);
  EXPECT_GT(copied.by_rank[1].bytes, 0u);
  const Seen norm_copied = train(run, "in_place: false", kNorm), norm = train(run, "", kNorm);
  EXPECT_EQ(norm.weights, norm_copied.weights);
  EXPECT_EQ(norm.by_rank[1], (Traffic{0, 0, 1}));
  run.servers = 2;  // slices of the weights lie apart
  EXPECT_GT(train(run, "").by_rank.back().bytes, 0u);
}

TEST_F(SyncTrafficTest, SeveralServers) {
  for (const int servers : {2, 3}) {
    SyncRun run;
    run.servers = servers;
    run.workers = 3;
    const auto others = static_cast<uint64_t>(servers - 1);
    const Seen seen = train(run, "bucket_bytes: 1000000");
    const SyncLayout layout{servers, 3, seen.floats, 0};
    EXPECT_EQ(seen.by_rank[0], (Traffic{3, 3 * layout.slice_bytes(0), 3 + 2 * others}));
    for (int w = 0; w < 3; ++w) {  // one put a slice
      const Traffic worker{static_cast<uint64_t>(servers), seen.floats * sizeof(float), 1};
      EXPECT_EQ(seen.by_rank[servers + w], worker);
    }
  }
}

// A put for each of the net's parameters, up and down, and not a bit less.
TEST_F(SyncTrafficTest, NotPacked) {
  SyncRun run;
  const Seen packed = train(run, "overlap: false");
  for (const char* comm : {"packed: false", "packed: false overlap: false"}) {
    SCOPED_TRACE(comm);
    const Seen seen = train(run, comm);
    const uint64_t bytes = seen.floats * sizeof(float);
    const uint64_t parameters = 2 * layers_.size();  // weights and bias
    EXPECT_EQ(seen.by_rank[0], (Traffic{2 * parameters, 2 * bytes, 2}));
    EXPECT_EQ(seen.by_rank[1], (Traffic{parameters, bytes, 1}));
    EXPECT_EQ(seen.weights, packed.weights);
  }
  EXPECT_EQ(packed.by_rank[0].puts, 2u);
}

TEST_F(SyncTrafficTest, OverlapChangesNeitherBytesNorBits) {
  SyncRun run;
  const Seen with = train(run, "bucket_bytes: 1"), without = train(run, "overlap: false");
  EXPECT_EQ(with.weights, without.weights);
  EXPECT_EQ(with.by_rank[0], without.by_rank[0]);
  EXPECT_EQ(with.by_rank[1].bytes, without.by_rank[1].bytes);
  EXPECT_EQ(with.by_rank[1].puts, layers_.size());
  EXPECT_EQ(without.by_rank[1].puts, 1u);
}

}  // namespace
}  // namespace kinet
