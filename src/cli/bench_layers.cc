// kinet bench layers: how fast each kind of layer is on a GPU or on the CPU, and what share of the
// device's limit that is.
//
// Share: the least time that arithmetic or memory needs at the device's limit, whichever is longer,
// divided by the time measured (a roofline). Bytes are those that a pass must move at least, so a
// layer whose tensors stay in a cache may show more than 100 %.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/cli/bench_ranks.h"
#include "src/cli/command.h"
#include "src/cli/gpu_flag.h"
#include "src/cli/gpu_math.h"
#include "src/cli/layer_timer.h"
#include "src/cli/machine_checks.h"
#include "src/cli/options.h"
#include "src/cli/table.h"
#include "src/math/blas.h"

namespace kinet {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kGpuBatch = 32;  // fills a device
constexpr int64_t kCpuBatch = 4;   // the whole list in about two minutes on two cores

class BenchLayers : public Command {
 public:
  static CommandType describe() {
    return {"bench layers", "speed of each kind of layer, and its share of the device's limit",
            "kinet bench layers --only lenet"};
  }

  void configure(CLI::App& app) override {
    app.add_option("--gpu", gpu_, "on this GPU, the first by default; without the flag: on the CPU")
        ->expected(0, 1)
        ->default_str("0");
    app.add_option("--only", only_, "REGEX: the layers whose name it is found in");
    app.add_option("--batch", batch_, "images; by default 32 on a GPU, 4 on the CPU")
        ->check(CLI::Range(1, 65536));
    add_gpu_math_flag(app, timer_.math);
    app.add_option("--repeats", timer_.repeats, "times that each pass is timed; the median counts")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--seconds", timer_.seconds, "that such a time is long at least")
        ->check(CLI::Range(0.0, 10.0))
        ->capture_default_str();
    add_threads_flag(app, threads_);
    app.add_flag("--list", list_, "print the layers and their shapes of one image, and time none");
    app.add_option("--json", json_, "write the results into this file too");
  }

  int run() override {
    const std::vector<LayerToTime> layers = chosen();
    if (list_) return print_list(layers);
    check_flags();
    prepare();
    print_heading();
    std::fflush(stdout);
    Json rows = Json::array();
    size_t failed = 0;
    for (const LayerToTime& layer : layers) {
      try {
        rows.push_back(timed(layer));
      } catch (const Error& error) {  // too large for this device, it may be: the others count
        std::printf("%-20s not timed: %s\n", layer.name.c_str(), error.what());
        rows.push_back({{"name", layer.name}, {"error", error.what()}});
        ++failed;
      }
      std::fflush(stdout);
    }
    write_json_file(json_, results(std::move(rows)).dump(2) + "\n");
    KINET_CHECK(failed == 0, "bench layers: {} of {} layers not timed", failed, layers.size());
    return 0;
  }

 private:
  std::vector<LayerToTime> chosen() const {
    std::vector<LayerToTime> layers = layers_to_time();
    try {
      const std::regex pattern(only_);
      std::erase_if(layers, [&](const LayerToTime& layer) {
        return !std::regex_search(layer.name, pattern);
      });
    } catch (const std::regex_error& error) {
      fail("bench layers: --only {}: {}", only_, error.what());
    }
    KINET_CHECK(!layers.empty(),
                "bench layers: --only {} is found in no name\nhint: --list shows the names", only_);
    return layers;
  }

  // Prints the line of a layer too.
  Json timed(const LayerToTime& layer) const {
    LayerTimer timer(layer, timer_);
    const PassTime forward = timer.forward(), backward = timer.backward();
    std::printf("%-20s %s %s  %s\n", layer.name.c_str(), cells(forward).c_str(),
                cells(backward).c_str(), timer.shapes().c_str());
    return {{"name", layer.name},
            {"shapes", timer.shapes()},
            {"forward", as_json(forward)},
            {"backward", as_json(backward)}};
  }

  // What would be found too late, after everything is timed, or make figures that mean nothing.
  void check_flags() const {
    KINET_CHECK(std::isfinite(timer_.seconds), "bench layers: --seconds is not a number");
    KINET_CHECK(timer_.math == TimerOptions().math || !gpu_.empty(),
                "bench layers: --gpu-math goes with --gpu");
    if (json_.empty()) return;
    const std::filesystem::path folder = std::filesystem::path(json_).parent_path();
    KINET_CHECK(!std::filesystem::is_directory(json_), "bench layers: --json {} is a folder",
                json_);
    KINET_CHECK(folder.empty() || std::filesystem::is_directory(folder),
                "bench layers: --json {}: there is no folder {}", json_, folder.string());
  }

  static int print_list(const std::vector<LayerToTime>& layers) {
    Table table({"name", "shapes of one image", "layer"});
    for (const LayerToTime& layer : layers) {
      std::string shapes;
      for (const Shape& shape : layer.bottoms) shapes += (shapes.empty() ? "" : "+") + shape.str();
      table.add({layer.name, shapes, layer.text});
    }
    std::printf("%s", table.str().c_str());
    return 0;
  }

  // The device and its limits.
  void prepare() {
    const GpuChoice choice = read_gpu_choice(gpu_, nullptr);
    KINET_CHECK(choice.ids.size() < 2, "bench layers: --gpu {}: one GPU at a time", gpu_);
    OpenedGpu opened = open_gpu(choice);
    timer_.device = std::move(opened.device);
    timer_.threads = resolve_threads(threads_);
    timer_.batch = batch_ > 0 ? batch_ : timer_.device != nullptr ? kGpuBatch : kCpuBatch;
    if (timer_.device == nullptr) {
      if (!opened.note.empty()) std::fprintf(stderr, "kinet: %s\n", opened.note.c_str());
      place_ = fmt::format("CPU, {} threads, {}", timer_.threads, blas_description());
      limits_ = measure_cpu_limits(timer_.threads);
      return;
    }
    place_ = opened.note;
    std::string why;
    const std::vector<DeviceInfo> devices = find_cuda_backend(&why)->devices();
    limits_ = devices[choice.automatic ? 0 : choice.ids[0]].limits;
  }

  // Operations a second, 0: unknown. bf16 has a rate of its own, and only convolutions use it.
  double arithmetic_limit() const {
    if (timer_.device == nullptr || timer_.math == "FLOAT32") return limits_.flops;
    return timer_.math == "TF32" ? limits_.tensor_flops : 0;
  }

  void print_heading() const {
    std::printf("# %s\n# %s\n", build_info_line().c_str(), place_.c_str());
    std::printf("# batch %ld, %s; medians of %d times of at least %g s after warming up\n",
                static_cast<long>(timer_.batch), timer_.math.c_str(), timer_.repeats,
                timer_.seconds);
    std::printf("# %s; a share above 100 %% is that of tensors in a cache\n",
                limits_line(limits_).c_str());
    std::printf("# %-18s %s %s  shapes\n", "layer", headings("forward ms").c_str(),
                headings("backward ms").c_str());
  }

  static std::string headings(const std::string& time) {
    return fmt::format("{:>11} {:>9} {:>8} {:>7}", time, "GFLOP/s", "GB/s", "share");
  }

  // In parts of 1; 0: the limit that counts is unknown.
  double share(const PassTime& pass) const {
    if (pass.flops > 0 && arithmetic_limit() <= 0) return 0;
    if (limits_.bytes_per_second <= 0) return 0;
    const double arithmetic = pass.flops > 0 ? pass.flops / arithmetic_limit() : 0;
    return std::max(arithmetic, pass.bytes / limits_.bytes_per_second) / pass.median;
  }

  std::string cells(const PassTime& pass) const {
    const double part = share(pass);
    return fmt::format(
        "{:>11.4f} {:>9} {:>8.1f} {:>7}", pass.median * 1e3,
        pass.flops > 0 ? fmt::format("{:.1f}", pass.flops / pass.median / 1e9) : "",
        pass.bytes / pass.median / 1e9,
        part > 0 ? fmt::format("{:.{}f} %", 100 * part, part < 0.01 ? 2 : 1) : "unknown");
  }

  Json as_json(const PassTime& pass) const {
    Json out{{"ms", pass.median * 1e3},
             {"least_ms", pass.least * 1e3},
             {"gflops", pass.flops / pass.median / 1e9},
             {"gbytes_per_second", pass.bytes / pass.median / 1e9}};
    const double part = share(pass);
    out["share"] = part > 0 ? Json(part) : Json();
    return out;
  }

  Json results(Json rows) const {
    const auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
    return {{"bench", "layers"},
            {"build", build_info_line()},
            {"device", place_},
            {"batch", timer_.batch},
            {"gpu_math", timer_.math},
            {"limits",
             {{"flops", known(arithmetic_limit())},
              {"bytes_per_second", known(limits_.bytes_per_second)},
              {"computed_from", limits_.computed_from}}},
            {"layers", std::move(rows)}};
  }

  std::string gpu_, only_, json_, place_;
  int batch_ = 0, threads_ = 0;
  bool list_ = false;
  TimerOptions timer_;
  DeviceLimits limits_;
};
KINET_REGISTER_COMMAND(BenchLayers);

}  // namespace
}  // namespace kinet
