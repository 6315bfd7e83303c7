// kinet bench allreduce: the collectives of training, with the columns of nccl-tests.
//
//   algbw = size / time          busbw = algbw * 2 (N-1) / N
// busbw is what a link carries when every byte moves as few times as an all-reduce needs; it can be
// compared with the speed of the hardware whatever N is. #wrong counts elements of one operation
// that differ from the sum computed here; `direct` has to be right to the bit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "comm/collectives.h"
#include "src/base/check.h"
#include "src/cli/bench_ranks.h"
#include "src/cli/bench_tune.h"
#include "src/cli/command.h"

namespace kinet {
namespace {

constexpr double kOperationTimeout = 60;  // seconds of one operation
constexpr int kUntimed = 5;

struct Row {
  uint64_t bytes = 0, count = 0;
  int iterations = 0;
  double us = 0, us_min = 0, us_median = 0, algbw = 0, busbw = 0;
  int64_t wrong = -1;  // not looked at
};

float value_of(Rank rank, uint64_t i) {
  const auto x = static_cast<uint32_t>(i * 2654435761U + static_cast<uint32_t>(rank) * 40503U);
  return static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31F;
}

class AllReduceBench {
 public:
  AllReduceBench(Communicator& comm, const CollectiveOptions& options, uint64_t most)
      : comm_(comm), region_(comm.allocate(most, "bench")), ops_(comm, *region_, options) {
    exact_ = options.algorithm == Algorithm::kDirect ||
             (options.algorithm == Algorithm::kAuto && comm.size() <= kDirectRanks);
  }

  Row measure(uint64_t bytes, int iterations, bool verify) {
    Row row;
    row.count = bytes / sizeof(float);
    row.bytes = row.count * sizeof(float);
    row.iterations = iterations;
    std::fill_n(region_->as<float>().begin(), row.count, 0.0F);
    for (int i = 0; i < kUntimed; ++i) reduce(row.count);
    ops_.wait(ops_.barrier(), kOperationTimeout);
    std::vector<double> times;
    double last = comm_.now();
    const double start = last;
    for (int i = 0; i < iterations; ++i) {
      reduce(row.count);
      const double now = comm_.now();
      times.push_back((now - last) * 1e6);
      last = now;
    }
    row.us = (last - start) * 1e6 / iterations;
    std::sort(times.begin(), times.end());
    row.us_min = times.front();
    row.us_median = times[times.size() / 2];
    const double n = comm_.size();
    row.algbw = static_cast<double>(row.bytes) / row.us * 1e-3;
    row.busbw = row.algbw * 2 * (n - 1) / n;
    if (verify) row.wrong = count_wrong(row.count);
    return row;
  }

 private:
  void reduce(uint64_t count) { ops_.wait(ops_.all_reduce(0, count), kOperationTimeout); }

  // Of all ranks together.
  int64_t count_wrong(uint64_t count) {
    const auto data = region_->as<float>();
    for (uint64_t i = 0; i < count; ++i) data[i] = value_of(comm_.rank(), i);
    reduce(count);
    int64_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) {
      float want = value_of(0, i);
      for (Rank r = 1; r < comm_.size(); ++r) want += value_of(r, i);
      const bool good = exact_
                            ? std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(data[i])
                            : std::abs(want - data[i]) <= 1e-6F * static_cast<float>(comm_.size());
      wrong += good ? 0 : 1;
    }
    data[0] = static_cast<float>(wrong);
    ops_.wait(ops_.all_reduce(0, 1), kOperationTimeout);
    return std::llround(data[0]);
  }

  Communicator& comm_;
  std::unique_ptr<Region> region_;
  Collectives ops_;
  bool exact_ = true;
};

nlohmann::ordered_json as_json(const Row& row) {
  nlohmann::ordered_json out{{"bytes", row.bytes},
                             {"count", row.count},
                             {"iterations", row.iterations},
                             {"time_us", row.us},
                             {"time_us_median", row.us_median},
                             {"time_us_min", row.us_min},
                             {"algbw_GBps", row.algbw},
                             {"busbw_GBps", row.busbw}};
  if (row.wrong >= 0) out["wrong"] = row.wrong;
  return out;
}

class BenchAllReduce : public Command {
 public:
  static CommandType describe() {
    return {"bench allreduce", "time of all-reduce, by size",
            "kinet bench allreduce --workers 2 --max-size 1048576"};
  }

  void configure(CLI::App& app) override {
    add_bench_flags(app, flags_);
    app.add_option("--algorithm", algorithm_, "auto, direct, ring or halving_doubling")
        ->capture_default_str();
    app.add_option("--min-size", min_size_, "bytes")
        ->check(CLI::Range(4, 1 << 30))
        ->capture_default_str();
    app.add_option("--max-size", max_size_, "bytes")
        ->check(CLI::Range(4, 1 << 30))
        ->capture_default_str();
    app.add_option("--factor", factor_, "from one size to the next")
        ->check(CLI::Range(2, 1024))
        ->capture_default_str();
    app.add_option("--iterations", iterations_, "of each size, at most")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--piece", piece_, "bytes that a step moves and sums")->capture_default_str();
    app.add_option("--depth", depth_, "segments under way")->capture_default_str();
    app.add_flag("!--no-verify", verify_, "do not compare results");
    app.add_flag("--autotune", autotune_, "try settings; print the best at --max-size");
  }

  int run() override {
    KINET_CHECK(min_size_ <= max_size_, "bench allreduce: --min-size {} is above --max-size {}",
                min_size_, max_size_);
    algorithm_of(algorithm_);
    if (autotune_) return run_autotune();
    return run_bench_ranks(flags_, [this](Communicator& comm) { run_rank(comm); });
  }

 private:
  void run_rank(Communicator& comm) {
    CollectiveOptions options;
    options.algorithm = algorithm_of(algorithm_);
    options.piece = piece_;
    options.depth = depth_;
    AllReduceBench bench(comm, options, max_size_);
    const bool prints = comm.rank() == 0;
    if (prints) print_heading(comm);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    int64_t wrong = 0;
    for (uint64_t bytes = min_size_; bytes <= max_size_; bytes *= factor_) {
      const Row row = bench.measure(bytes, iterations_of(bytes), verify_);
      wrong += std::max<int64_t>(row.wrong, 0);
      if (!prints) continue;
      std::printf("%s\n", text_of(row).c_str());
      std::fflush(stdout);
      rows.push_back(as_json(row));
    }
    if (prints) {
      write_json_file(flags_.json, nlohmann::ordered_json{{"bench", "allreduce"},
                                                          {"ranks", comm.size()},
                                                          {"algorithm", algorithm_},
                                                          {"piece", piece_},
                                                          {"depth", depth_},
                                                          {"rows", rows}}
                                           .dump(2) +
                                       "\n");
    }
    if (wrong > 0) fail_runtime("bench allreduce: {} elements are wrong", wrong);
  }

  void print_heading(const Communicator& comm) const {
    std::printf("%s# %s, piece %lu bytes, depth %d\n#\n",
                bench_heading(comm, flags_.verbose).c_str(), algorithm_.c_str(), piece_, depth_);
    std::printf("#%11s %12s %7s %6s %12s %14s %14s %7s\n", "size(B)", "count", "type", "redop",
                "time(us)", "algbw(GB/s)", "busbw(GB/s)", "#wrong");
  }

  static std::string text_of(const Row& row) {
    return fmt::format("{:>12} {:>12} {:>7} {:>6} {:>12.2f} {:>14.3f} {:>14.3f} {:>7}", row.bytes,
                       row.count, "float", "sum", row.us, row.algbw, row.busbw,
                       row.wrong < 0 ? "N/A" : std::to_string(row.wrong));
  }

  // A few gigabytes a size are enough.
  int iterations_of(uint64_t bytes) const {
    constexpr uint64_t kBytes = uint64_t{2} << 30;
    return std::clamp(static_cast<int>(kBytes / bytes), 5, std::max(iterations_, 5));
  }

  int run_autotune() {
    const std::string transport = flags_.transport;
    std::vector<Knob> knobs{
        {"--algorithm", {algorithm_, "direct", "ring", "halving_doubling"}},
        {"--piece", {std::to_string(piece_), "32768", "65536", "262144", "524288"}},
        {"--depth", {std::to_string(depth_), "2", "8"}}};
    for (Knob& knob : transport_knobs(transport)) knobs.push_back(std::move(knob));
    const int workers = flags_.launch.workers > 0 ? flags_.launch.workers : 2;
    const TuneResult best = tune(knobs, [&](const auto& settings) {
      std::vector<std::string> words{"bench", "allreduce"};
      for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{
               {"--min-size", std::to_string(max_size_)},
               {"--max-size", std::to_string(max_size_)},
               {"--iterations", std::to_string(iterations_)}}) {
        words.insert(words.end(), {flag, value});
      }
      add_settings(words, flags_, settings);
      const std::string text = run_and_read_json(words, workers);
      if (text.empty()) return 0.0;
      return nlohmann::json::parse(text)["rows"][0]["busbw_GBps"].get<double>();
    });
    std::printf("\n# busbw %.3f GB/s, %.3f with the settings below\n%s", best.first, best.best,
                comm_param_block(transport, best).c_str());
    return 0;
  }

  BenchFlags flags_;
  std::string algorithm_ = "auto";
  uint64_t min_size_ = 8, max_size_ = 64 << 20, factor_ = 4;
  int iterations_ = 50;
  uint64_t piece_ = CollectiveOptions().piece;
  int depth_ = CollectiveOptions().depth;
  bool verify_ = true, autotune_ = false;
};
KINET_REGISTER_COMMAND(BenchAllReduce);

}  // namespace
}  // namespace kinet
