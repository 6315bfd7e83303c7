// kinet bench comm: latency and bandwidth of puts and messages between two ranks, with the columns
// of perftest, through the very communicator that training uses.
//
//   latency    half a round trip in microseconds: t_typical is the median
//   bandwidth  BW average: all bytes over the time until the receiver had them; BW peak: the best
//              `depth` operations in a row, from the post of the first to the end of the last. MB =
//              10^6 bytes; both directions are added up.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/base/check.h"
#include "src/cli/bench_ranks.h"
#include "src/cli/bench_traffic.h"
#include "src/cli/bench_tune.h"
#include "src/cli/command.h"

namespace kinet {
namespace {

using Json = nlohmann::ordered_json;

struct LatencyRow {
  double min = 0, max = 0, typical = 0, average = 0, deviation = 0, p99 = 0, p999 = 0;  // us
};

LatencyRow row_of(const std::vector<double>& sorted) {
  const auto n = static_cast<double>(sorted.size());
  const auto at = [&](double share) {
    const auto index = static_cast<size_t>(std::ceil(share * n)) - 1;
    return sorted[std::min(index, sorted.size() - 1)] * 1e6;
  };
  LatencyRow row;
  row.min = sorted.front() * 1e6;
  row.max = sorted.back() * 1e6;
  row.typical = at(0.5);
  row.average = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n * 1e6;
  double squares = 0;
  for (const double t : sorted) squares += (t * 1e6 - row.average) * (t * 1e6 - row.average);
  row.deviation = std::sqrt(squares / n);
  row.p99 = at(0.99);
  row.p999 = at(0.999);
  return row;
}

class BenchComm : public Command {
 public:
  static CommandType describe() {
    return {"bench comm", "latency and bandwidth between two ranks",
            "kinet bench comm --op put --mode lat --bytes 64"};
  }

  void configure(CLI::App& app) override {
    add_bench_flags(app, flags_);
    app.add_option("--op", op_, "put or message")
        ->check(CLI::IsMember({"put", "message"}))
        ->capture_default_str();
    app.add_option("--mode", mode_, "lat, bw or both")
        ->check(CLI::IsMember({"lat", "bw", "both"}))
        ->capture_default_str();
    app.add_flag("--bidirectional", both_ways_, "bandwidth: both ranks send");
    app.add_option("--bytes", bytes_, "one size (default: 2 for lat, 65536 for bw)")
        ->check(CLI::Range(uint64_t{1}, kMostBytes));
    app.add_flag("--all", all_, "all sizes from 2 bytes to 8 MiB; messages to 1016 bytes");
    app.add_option("--iterations", iterations_, "of each size")
        ->check(CLI::Range(5, 100000000))
        ->capture_default_str();
    app.add_option("--depth", depth_, "bandwidth: puts under way")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    app.add_flag("!--no-verify", verify_, "do not compare what arrives");
    app.add_flag("--autotune", autotune_, "try the transport's knobs; print the best");
  }

  int run() override {
    if (op_ == "message") {
      KINET_CHECK(bytes_ <= kMaxPayload, "bench comm: a message carries at most {} bytes",
                  kMaxPayload);
    }
    if (autotune_) return run_autotune();
    return run_bench_ranks(flags_, [this](Communicator& comm) { run_rank(comm); });
  }

 private:
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;

  bool put() const { return op_ == "put"; }

  std::vector<uint64_t> sizes(bool latency) const {
    if (bytes_ > 0) return {bytes_};
    if (!all_) return {latency ? 2 : (put() ? uint64_t{65536} : kMaxPayload)};
    std::vector<uint64_t> out;
    const uint64_t most = put() ? uint64_t{8} << 20 : kMaxPayload;
    for (uint64_t bytes = 2; bytes <= most; bytes *= 2) out.push_back(bytes);
    return out;
  }

  // Large ones take long: a gigabyte a size is enough.
  int iterations_of(uint64_t bytes) const {
    const uint64_t enough = (uint64_t{1} << 30) / bytes;
    return static_cast<int>(std::clamp<uint64_t>(enough, 20, std::max(iterations_, 20)));
  }

  void run_rank(Communicator& comm) {
    KINET_CHECK(comm.size() == 2, "bench comm: measures 2 ranks, there are {}", comm.size());
    uint64_t most = 0;
    for (const bool latency : {true, false}) most = std::max(most, sizes(latency).back());
    Traffic traffic(comm, most, depth_);
    const bool prints = comm.rank() == 0;
    if (prints) std::fputs(bench_heading(comm, flags_.verbose).c_str(), stdout);
    Json out{{"bench", "comm"}, {"op", op_}, {"transport", comm.route(1 - comm.rank())}};
    if (mode_ != "bw") latency(traffic, prints, out);
    if (mode_ != "lat") bandwidth(traffic, prints, out);
    if (prints) write_json_file(flags_.json, out.dump(2) + "\n");
  }

  void verify(Traffic& traffic, uint64_t bytes) const {
    if (!verify_) return;
    const uint64_t wrong = put() ? traffic.wrong_of_put(bytes) : traffic.wrong_of_message(bytes);
    if (wrong > 0) fail_runtime("bench comm: {} of {} bytes arrived wrong", wrong, bytes);
  }

  void latency(Traffic& traffic, bool prints, Json& out) const {
    if (prints) {
      std::printf("# %s latency, half a round trip in usec%s\n", op_.c_str(),
                  verify_ ? ", verified" : "");
      std::printf("#%8s %12s %9s %9s %11s %9s %9s %9s %9s\n", "bytes", "#iterations", "t_min",
                  "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%");
    }
    for (const uint64_t bytes : sizes(true)) {
      verify(traffic, bytes);
      const int n = iterations_of(bytes);
      const LatencyResult result =
          put() ? traffic.put_latency(bytes, n) : traffic.message_latency(bytes, n);
      const LatencyRow r = row_of(result.half_round_trips);
      if (!prints) continue;
      std::printf("%9lu %12d %9.2f %9.2f %11.2f %9.2f %9.2f %9.2f %9.2f\n", bytes, n, r.min, r.max,
                  r.typical, r.average, r.deviation, r.p99, r.p999);
      std::fflush(stdout);
      out["latency"].push_back({{"bytes", bytes},
                                {"iterations", n},
                                {"t_min_us", r.min},
                                {"t_max_us", r.max},
                                {"t_typical_us", r.typical},
                                {"t_avg_us", r.average},
                                {"t_stdev_us", r.deviation},
                                {"p99_us", r.p99},
                                {"p99_9_us", r.p999}});
    }
  }

  void bandwidth(Traffic& traffic, bool prints, Json& out) const {
    if (prints) {
      std::printf("# %s bandwidth, %s, depth %d%s\n", op_.c_str(),
                  both_ways_ ? "both directions" : "one direction", depth_,
                  verify_ ? ", verified" : "");
      std::printf("#%8s %12s %15s %18s %14s\n", "bytes", "#iterations", "BW peak[MB/s]",
                  "BW average[MB/s]", "MsgRate[Mpps]");
    }
    for (const uint64_t bytes : sizes(false)) {
      verify(traffic, bytes);
      const int n = iterations_of(bytes);
      const BandwidthResult r = put() ? traffic.put_bandwidth(bytes, n, both_ways_)
                                      : traffic.message_bandwidth(bytes, n, both_ways_);
      if (!prints) continue;
      const double average = static_cast<double>(r.bytes) / r.seconds * 1e-6;
      const double rate = static_cast<double>(r.operations) / r.seconds * 1e-6;
      std::printf("%9lu %12d %15.2f %18.2f %14.6f\n", bytes, n, r.peak * 1e-6, average, rate);
      std::fflush(stdout);
      out["bandwidth"].push_back({{"bytes", bytes},
                                  {"iterations", n},
                                  {"both_directions", both_ways_},
                                  {"bw_peak_MBps", r.peak * 1e-6},
                                  {"bw_average_MBps", average},
                                  {"msg_rate_Mpps", rate}});
    }
  }

  // Latency when that alone is asked for, else bandwidth.
  int run_autotune() {
    const bool latency = mode_ == "lat";
    const TuneResult best = tune(transport_knobs(flags_.transport), [&](const auto& settings) {
      std::vector<std::string> words{"bench",        "comm",
                                     "--op",         op_,
                                     "--mode",       latency ? "lat" : "bw",
                                     "--iterations", std::to_string(iterations_),
                                     "--depth",      std::to_string(depth_),
                                     "--bytes",      std::to_string(sizes(latency).front())};
      if (both_ways_) words.emplace_back("--bidirectional");
      add_settings(words, flags_, settings);
      const std::string text = run_and_read_json(words, 2);
      if (text.empty()) return 0.0;
      const auto json = nlohmann::json::parse(text);
      return latency ? 1.0 / json["latency"][0]["t_typical_us"].get<double>()
                     : json["bandwidth"][0]["bw_average_MBps"].get<double>();
    });
    const auto shown = [&](double score) { return latency ? 1 / score : score; };
    std::printf("\n# %s %.3f, %.3f with the settings below\n%s",
                latency ? "t_typical[usec]" : "BW average[MB/s]", shown(best.first),
                shown(best.best), comm_param_block(flags_.transport, best).c_str());
    return 0;
  }

  BenchFlags flags_;
  std::string op_ = "put", mode_ = "both";
  uint64_t bytes_ = 0;
  int iterations_ = 1000, depth_ = 128;
  bool both_ways_ = false, all_ = false, verify_ = true, autotune_ = false;
};
KINET_REGISTER_COMMAND(BenchComm);

}  // namespace
}  // namespace kinet
