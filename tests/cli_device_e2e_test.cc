// GPUs as the user of the program meets them: on the emulated device, and with the real back-end
// where there is no driver.
// ctest: labels=integration timeout=300
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

// What a train command prints of losses and scores.
std::string figures_of(const std::string& log) {
  static const std::regex kFigure(R"((Train|Test) net output #\d+: \S+ = ([\d.e+-]+))");
  std::string out;
  for (std::sregex_iterator m(log.begin(), log.end(), kFigure), end; m != end; ++m) {
    out += fmt::format("{:.4f} ", std::stod((*m)[2]));
  }
  return out;
}

class CliDevice : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    setenv("KINET_CUDA_LIBRARY", "emulated", 1);
  }
  void TearDown() override { unsetenv("KINET_CUDA_LIBRARY"); }

  ProcessResult train(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"train", "solver.prototxt", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return kinet(arguments);
  }
};

TEST_F(CliDevice, TrainsTestsAndTimesThere) {
  const ProcessResult cpu = train({"--out", "cpu"});
  const ProcessResult gpu = train({"--out", "gpu", "--gpu", "0"});
  ASSERT_EQ(gpu.status, 0) << gpu.err;
  EXPECT_CONTAINS(gpu.out, "Device: GPU 0: ");
  EXPECT_CONTAINS(gpu.out, "emulated on the CPU, as KINET_CUDA_LIBRARY says");
  EXPECT_EQ(figures_of(gpu.out), figures_of(cpu.out));
  EXPECT_NE(figures_of(gpu.out), "");

  const std::vector<std::string> test{"test", "solver.prototxt", "--weights",
                                      "gpu/solver_iter_3.caffemodel"};
  const ProcessResult scored = kinet(test);
  std::vector<std::string> there = test;
  there.insert(there.end(), {"--gpu", "0"});
  const ProcessResult scored_there = kinet(there);
  EXPECT_EQ(scored_there.status, 0) << scored_there.err;
  EXPECT_CONTAINS(scored_there.err, "kinet: GPU 0: ");
  EXPECT_EQ(figures_of(scored_there.out), figures_of(scored.out));

  const ProcessResult timed = kinet({"time", "net.prototxt", "--iterations", "2", "--gpu", "0"});
  EXPECT_EQ(timed.status, 0) << timed.err;
  EXPECT_CONTAINS(timed.out, "phase TRAIN, GPU 0: ");
  EXPECT_CONTAINS(timed.out, "Layers on a GPU wait for their own end here; --whole");
}

// What cannot be done is said before anything is timed.
TEST_F(CliDevice, RefusesFlagsThatMeanNothing) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"time", "net.prototxt", "--whole", "--phase", "TEST"}, "times iterations of training"},
      {{"time", "net.prototxt", "--gpu-math", "TF32"}, "--gpu-math goes with --gpu"},
      {{"bench", "layers", "--gpu-math", "TF32"}, "--gpu-math goes with --gpu"},
      {{"bench", "layers", "--seconds", "nan"}, "--seconds"},
      {{"bench", "layers", "--json", "no/such/folder.json"}, "there is no folder no/such"},
      {{"train", "solver.prototxt", "--gpu", ""}, "the number of a GPU is wanted"},
  };
  for (const auto& [command, why] : cases) {
    const ProcessResult told = kinet(command);
    EXPECT_EQ(told.status, 2) << told.out;
    EXPECT_CONTAINS(told.err, why);
  }
}

TEST_F(CliDevice, TimesWholeIterations) {
  for (const char* place : {"--gpu=0", "--threads=1"}) {
    std::vector<std::string> command{"time",    "net.prototxt", "--iterations", "2", place,
                                     "--shape", "1,5,5",        "--batch",      "3", "--whole"};
    if (std::string(place) == "--gpu=0") command.insert(command.end(), {"--gpu-math", "TF32"});
    const ProcessResult told = kinet(command);
    ASSERT_EQ(told.status, 0) << told.err;
    EXPECT_CONTAINS(told.out, "3x1x5x5");
    EXPECT_CONTAINS(told.out, "Parts timed by themselves: forward ");
    std::vector<std::string> as_json = command;
    as_json.emplace_back("--json");
    const auto json = nlohmann::json::parse(kinet(as_json).out);
    EXPECT_EQ(json["batch"], 3);
    EXPECT_EQ(json["parameters"], 260);
    for (const char* part : {"forward_ms", "backward_ms", "update_ms", "iteration_ms"}) {
      EXPECT_GT(json["whole"][part].get<double>(), 0) << place << " " << part;
    }
  }
  const ProcessResult alone = kinet({"time", "net.prototxt", "--batch", "3"});
  EXPECT_EQ(alone.status, 2);
  EXPECT_CONTAINS(alone.err, "--batch goes with --shape");
}

// Times vary; what is moved and computed in them does not.
TEST_F(CliDevice, BenchLayersTellsTimesAndShares) {
  const ProcessResult r =
      kinet({"bench", "layers", "--gpu", "--only", "^lenet_(ip2|relu1|loss)|resnet20_sum",
             "--batch", "3", "--repeats", "1", "--seconds", "0", "--json", "layers.json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_CONTAINS(r.out, "# GPU 0: kinet host emulation");
  EXPECT_CONTAINS(r.out, "limits: 512 GFLOP/s float32, 4.1 TFLOP/s tf32, 64 GB/s memory (4 multi");
  const auto json = nlohmann::json::parse(read_file(folder_ / "layers.json"));
  ASSERT_EQ(json["layers"].size(), 4U);
  const auto check = [&](int row, const char* pass, double flops, double bytes) {
    const auto& told = json["layers"][row][pass];
    const double seconds = told["ms"].get<double>() / 1e3;
    EXPECT_GT(seconds, 0);
    EXPECT_NEAR(told["gflops"].get<double>() * seconds * 1e9, flops, 1e-6 * flops) << row << pass;
    EXPECT_NEAR(told["gbytes_per_second"].get<double>() * seconds * 1e9, bytes, 1e-6 * bytes)
        << row << pass;
    const double least = std::max(flops / 512e9, bytes / 64e9);
    EXPECT_NEAR(told["share"].get<double>() * seconds, least, 1e-6 * least) << row << pass;
  };
  EXPECT_EQ(json["layers"][0]["shapes"], "3x500 -> 3x500");  // ReLU
  check(0, "forward", 0, 4.0 * (1500 + 1500));
  EXPECT_EQ(json["layers"][1]["shapes"], "3x500 -> 3x10");  // InnerProduct
  const double weights = 5010, x = 1500, y = 30;
  check(1, "forward", 2.0 * 3 * 5000, 4 * (x + y + weights));
  check(1, "backward", 4.0 * 3 * 5000, 4 * (y + x + x + 3 * weights));  // dy, x, dx; W, dW twice
  EXPECT_EQ(json["layers"][2]["shapes"], "3x10+3 -> scalar");
  check(3, "forward", 0, 4.0 * 3 * 16384 * 3);
  check(3, "backward", 0, 4.0 * 3 * 16384 * 3);
}

TEST_F(CliDevice, BenchLayersRunsOnTheCpuAndRefusesWhatIsNoLayer) {
  const ProcessResult cpu = kinet({"bench", "layers", "--only", "lenet_pool1", "--batch", "1",
                                   "--repeats", "2", "--seconds", "0", "--threads", "1"});
  ASSERT_EQ(cpu.status, 0) << cpu.err;
  EXPECT_CONTAINS(cpu.out, "# CPU, 1 threads, ");
  EXPECT_CONTAINS(cpu.out, "memory (measured here: ");
  EXPECT_CONTAINS(cpu.out, "1x20x24x24 -> 1x20x12x12");
  const ProcessResult none = kinet({"bench", "layers", "--only", "transformer"});
  EXPECT_EQ(none.status, 2);
  EXPECT_CONTAINS(none.err, "--only transformer is found in no name\nhint: --list shows the names");
  EXPECT_EQ(kinet({"bench", "layers", "--only", "("}).status, 2);
  EXPECT_EQ(kinet({"bench", "layers", "--gpu", "0,1"}).status, 2);
  const ProcessResult list = kinet({"bench", "layers", "--list"});
  EXPECT_CONTAINS(list.out,
                  "name                     shapes of one image                   layer\n");
  EXPECT_CONTAINS(list.out,
                  "vgg16_conv1_2            64x224x224                            type: 'C");
  EXPECT_CONTAINS(kinet({"bench"}).out, "bench layers");
}

// The others are timed and written all the same.
TEST_F(CliDevice, BenchLayersGoesOnAfterALayerThatDoesNotFit) {
  const ProcessResult r =
      kinet({"bench", "layers", "--gpu", "--only", "^(vgg16_pool1|lenet_relu1)$", "--batch", "1500",
             "--repeats", "1", "--seconds", "0", "--json", "layers.json"});
  EXPECT_EQ(r.status, 2);
  EXPECT_CONTAINS(r.out, "vgg16_pool1          not timed: ");
  EXPECT_CONTAINS(r.out, "needs 38.5 GB of memory, but GPU 0");
  EXPECT_CONTAINS(r.err, "bench layers: 1 of 2 layers not timed");
  const auto json = nlohmann::json::parse(read_file(folder_ / "layers.json"));
  ASSERT_EQ(json["layers"].size(), 2U);
  EXPECT_GT(json["layers"][0]["forward"]["ms"].get<double>(), 0);
  EXPECT_CONTAINS(json["layers"][1]["error"].get<std::string>(), "38.5 GB");
}

TEST_F(CliDevice, SimulateSaysThatItComputesOnTheCpu) {
  for (const std::string cluster : {"", "models/clusters/ethernet_10g.prototxt"}) {
    std::vector<std::string> command{"simulate", "solver.prototxt", "--workers",
                                     "2",        "--set",           "solver_mode=GPU"};
    if (!cluster.empty()) {
      command.insert(command.end(), {"--cluster", std::string(KINET_SOURCE_DIR "/") + cluster});
    }
    const ProcessResult r = kinet(command);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_CONTAINS(r.err, "solver_mode: GPU is not for simulate, which computes on the CPU");
  }
}

TEST_F(CliDevice, TheSolverFileMayAskForIt) {
  const ProcessResult gpu = train({"--out", "gpu", "--set", "solver_mode=GPU"});
  ASSERT_EQ(gpu.status, 0) << gpu.err;
  EXPECT_CONTAINS(gpu.out, "Device: GPU 0: ");
  const ProcessResult none =
      train({"--out", "none", "--set", "solver_mode=GPU", "--set", "device_id=4"});
  EXPECT_EQ(none.status, 2);
  EXPECT_CONTAINS(none.err, "there is no GPU 4: this machine has GPU 0 only");
  EXPECT_FALSE(exists("none"));
}

TEST_F(CliDevice, WorkersShareTheGpusOfTheList) {
  const std::vector<std::string> two{"--workers", "2"};
  std::vector<std::string> cpu{"--out", "cpu"}, gpu{"--out", "gpu", "--gpu", "0,0"};
  cpu.insert(cpu.end(), two.begin(), two.end());
  gpu.insert(gpu.end(), two.begin(), two.end());
  const ProcessResult on_cpu = train(cpu), on_gpu = train(gpu);
  ASSERT_EQ(on_gpu.status, 0) << on_gpu.err;
  EXPECT_EQ(figures_of(on_gpu.out), figures_of(on_cpu.out));
}

TEST_F(CliDevice, WorkersOfServersRunThere) {
  const std::vector<std::string> rest{"--workers", "2", "--sync", "asgd", "--set", "max_iter=4"};
  std::vector<std::string> gpu{"--out", "gpu", "--gpu", "auto"};
  gpu.insert(gpu.end(), rest.begin(), rest.end());
  const ProcessResult r = train(gpu);
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_TRUE(exists("gpu/solver_iter_4.caffemodel"));
}

// Weights come in pieces, from memory of the worker's own or of the server's.
TEST_F(CliDevice, WorkersOfServersGetTheFiguresOfTheCpu) {
  for (const std::string in_place : {"true", "false"}) {
    const std::vector<std::string> run{"--workers", "2",
                                       "--sync",    "bsp",
                                       "--set",     "sync_param.servers=1",
                                       "--set",     "comm_param.in_place=" + in_place,
                                       "--set",     "comm_param.bucket_bytes=512"};
    std::vector<std::string> cpu = run, gpu = run;
    cpu.insert(cpu.end(), {"--out", "cpu_" + in_place});
    gpu.insert(gpu.end(), {"--out", "gpu_" + in_place, "--gpu", "0"});
    const ProcessResult on_cpu = train(cpu), on_gpu = train(gpu);
    ASSERT_EQ(on_cpu.status, 0) << on_cpu.err;
    ASSERT_EQ(on_gpu.status, 0) << on_gpu.err;
    EXPECT_EQ(figures_of(on_gpu.out), figures_of(on_cpu.out));
    EXPECT_NE(figures_of(on_gpu.out), "");
    EXPECT_EQ(on_gpu.err.find("page-locked"), std::string::npos) << on_gpu.err;
  }
}

TEST_F(CliDevice, WhatIsNoChoiceIsRefused) {
  for (const std::string flag : {"first", "-1", "0,", "0,x"}) {
    const ProcessResult r = train({"--gpu=" + flag, "--out", "none"});
    EXPECT_EQ(r.status, 2) << flag;
    EXPECT_CONTAINS(r.err, "--gpu " + flag + ": 'auto', the number of a GPU, or numbers separated");
  }
  setenv("KINET_CUDA_LIBRARY", "imagined", 1);
  const ProcessResult r = train({"--gpu", "0", "--out", "none"});
  EXPECT_EQ(r.status, 2);
  EXPECT_CONTAINS(r.err, "KINET_CUDA_LIBRARY=imagined in the environment");
}

TEST_F(CliDevice, DevicesAndDoctorTellOfIt) {
  const std::string devices = kinet({"devices"}).out;
  EXPECT_CONTAINS(devices, "GPU 0    kinet host emulation, sm_80, 4 multiprocessors, ");
  EXPECT_CONTAINS(devices,
                  " free of 8.6 GB, bus 0000:01:00.0\n         limits: 512 GFLOP/s float32");
  const std::string doctor = kinet({"doctor"}).out;
  EXPECT_CONTAINS(doctor, "1 GPU to train on (--gpu)");
  EXPECT_CONTAINS(doctor, "emulated");
}

// The library that nvcc has built, on a machine without a driver.
class CliNoDriver : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    unsetenv("KINET_CUDA_LIBRARY");
    const std::string devices = kinet({"devices"}).out;
    if (devices.find("no GPU back-end") != std::string::npos) {
      GTEST_SKIP() << "libkinet_cuda.so is not built here (no nvcc, or KINET_CUDA is OFF)";
    }
    if (devices.find("no NVIDIA driver") == std::string::npos) {
      GTEST_SKIP() << "there is a driver here: " << devices;
    }
  }
};

TEST_F(CliNoDriver, AGpuThatIsAskedForIsAnErrorThatSaysWhatToDo) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--gpu", "0"},
                                               {"--gpu", "0,1", "--workers", "2"},
                                               {"--set", "solver_mode=GPU"}}) {
    std::vector<std::string> arguments{"train", "solver.prototxt", "--out", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult r = kinet(arguments);
    EXPECT_EQ(r.status, 2);
    EXPECT_CONTAINS(r.err, "GPU 0 cannot be used: no NVIDIA driver is loaded on this machine");
    EXPECT_CONTAINS(r.err, "hint: install the driver of the GPU; without a GPU, run on the CPU");
    EXPECT_FALSE(exists("none"));
  }
}

TEST_F(CliNoDriver, AutoFallsBackToTheCpuWithOneLine) {
  const ProcessResult cpu = kinet({"train", "solver.prototxt", "--out", "cpu", "--threads", "1"});
  const ProcessResult r =
      kinet({"train", "solver.prototxt", "--out", "auto", "--threads", "1", "--gpu", "auto"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_CONTAINS(r.out, "Device: no GPU is used: no NVIDIA driver is loaded on this machine");
  EXPECT_CONTAINS(r.out, "; computing on the CPU\n");
  EXPECT_EQ(figures_of(r.out), figures_of(cpu.out));
}

TEST_F(CliNoDriver, DoctorSaysWhyAndWhatToDo) {
  const std::string doctor = kinet({"doctor"}).out;
  EXPECT_CONTAINS(doctor, "none: no NVIDIA driver is loaded on this machine");
  EXPECT_CONTAINS(doctor, "training runs on the CPU; for GPUs, install the driver");
}

}  // namespace
}  // namespace kinet
