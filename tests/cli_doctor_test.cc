// ctest: labels=unit,core timeout=60
//
// kinet doctor: every transport with a remedy where it does not work, the checks of a machine on
// made-up machines, JSON, exit status; and the section of comm_param in kinet fields.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "comm/transport.h"
#include "src/cli/fields_page.h"
#include "src/cli/machine_checks.h"
#include "src/net/device.h"
#include "tests/subprocess.h"

namespace kinet {
namespace {

using Level = Finding::Level;

TEST(Doctor, NamesEveryTransportAndWhatToDo) {
  const auto findings = transport_findings();
  const auto names = TransportRegistry::instance().names();
  ASSERT_EQ(findings.size(), names.size()) << "on a machine where tests run, some transport works";
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(findings[i].subject, names[i]);
    EXPECT_FALSE(findings[i].summary.empty()) << names[i];
    const bool good = findings[i].level == Level::kGood;
    EXPECT_TRUE(good || !findings[i].remedy.empty()) << names[i];
  }
  EXPECT_TRUE(all_needed_works(findings));
}

TEST(Doctor, EveryFindingThatIsNotGoodSaysWhatToDo) {
  const auto findings = machine_findings();
  EXPECT_GT(findings.size(), 10U);
  for (const Finding& f : findings) {
    EXPECT_FALSE(f.summary.empty()) << f.subject;
    EXPECT_EQ(f.level == Level::kGood, f.remedy.empty()) << f.subject;
  }
}

TEST(Doctor, OneBadThingIsEnough) {
  std::vector<Finding> findings(3);
  EXPECT_TRUE(all_needed_works(findings));
  findings[1].level = Level::kNote;
  EXPECT_TRUE(all_needed_works(findings));
  findings[2].level = Level::kBad;
  EXPECT_FALSE(all_needed_works(findings));
}

TEST(Doctor, LockedMemory) {
  EXPECT_EQ(memory_lock_finding(UINT64_MAX).level, Level::kGood);
  EXPECT_EQ(memory_lock_finding(uint64_t{4} << 30).level, Level::kGood);
  const Finding small = memory_lock_finding(65536);
  EXPECT_EQ(small.level, Level::kNote);
  EXPECT_NE(small.summary.find("65.5 KB"), std::string::npos) << small.summary;
  EXPECT_NE(small.remedy.find("ulimit -l"), std::string::npos);
}

TEST(Doctor, HugePages) {
  const std::string head = "MemTotal:       16000000 kB\n";
  const Finding some = huge_pages_finding(
      head + "HugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:       2048 kB\n");
  EXPECT_EQ(some.level, Level::kGood);
  EXPECT_EQ(some.summary, "60 of 64 free, 2.1 MB each");
  EXPECT_EQ(huge_pages_finding(head + "HugePages_Total:       0\nHugepagesize: 2048 kB\n").level,
            Level::kNote);
  EXPECT_EQ(huge_pages_finding("").level, Level::kNote);
}

TEST(Doctor, NamesOfHosts) {
  EXPECT_EQ(host_name_finding("node1", {"10.0.0.5"}).level, Level::kGood);
  EXPECT_EQ(host_name_finding("node1", {"127.0.1.1", "10.0.0.5"}).level, Level::kGood);
  EXPECT_EQ(host_name_finding("node1", {"127.0.1.1", "::1"}).level, Level::kNote);
  EXPECT_NE(host_name_finding("node1", {}).summary.find("node1"), std::string::npos);
  EXPECT_EQ(host_name_finding("node1", {}).level, Level::kNote);
}

TEST(Doctor, CoresFilesAndTracing) {
  EXPECT_EQ(cores_finding(8, 8, 0).summary, "8 cores");
  EXPECT_EQ(cores_finding(8, 2, 0).level, Level::kNote);
  EXPECT_EQ(cores_finding(8, 8, 1.5).level, Level::kNote);
  EXPECT_EQ(cores_finding(2, 2, 4).level, Level::kGood);
  EXPECT_EQ(open_files_finding(256).level, Level::kNote);
  EXPECT_EQ(open_files_finding(1 << 20).level, Level::kGood);
  EXPECT_EQ(trace_finding("").level, Level::kGood);
  EXPECT_EQ(trace_finding("0").level, Level::kGood);
  EXPECT_EQ(trace_finding("1").level, Level::kNote);
}

TEST(Doctor, CommandPrintsTextAndJson) {
  const ProcessResult text = run_kinet({"doctor"}, ".");
  EXPECT_EQ(text.status, 0) << text.out << text.err;
  EXPECT_NE(text.out.find("Training works on this machine."), std::string::npos) << text.out;
  const ProcessResult json = run_kinet({"doctor", "--json"}, ".");
  EXPECT_EQ(json.status, 0);
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_TRUE(parsed["works"]);
  EXPECT_EQ(parsed["transports"].size(), TransportRegistry::instance().names().size());
  for (const auto& f : parsed["machine"]) {
    EXPECT_NE(text.out.find(f["subject"].get<std::string>()), std::string::npos) << f["subject"];
  }
}

TEST(GpuLines, TellWhatIsKnownAndNoMore) {
  DeviceInfo gpu;
  gpu.name = "NVIDIA H200";
  gpu.architecture = "sm_90";
  gpu.bus = "0000:3B:00.0";
  gpu.memory_bytes = 150'000'000'000;
  gpu.multiprocessors = 132;
  gpu.limits = {66.9e12, 0, 4.917e12, "of what"};
  gpu.peers = {1, 2};
  EXPECT_EQ(gpu_lines(gpu, 149'000'000'000),
            (std::vector<std::string>{
                "NVIDIA H200, sm_90, 132 multiprocessors, 149.0 GB free of 150.0 GB, bus "
                "0000:3B:00.0",
                "limits: 66.9 TFLOP/s float32, 4.9 TB/s memory (of what)",
                "uses the memory of GPU 1, 2 without a copy through the host"}));
  gpu.limits = {0, 0, 0, "nothing is told"};
  gpu.peers.clear();
  const std::vector<std::string> little = gpu_lines(gpu, 0);
  ASSERT_EQ(little.size(), 2U);
  EXPECT_EQ(little[0], "NVIDIA H200, sm_90, 132 multiprocessors, 150.0 GB, bus 0000:3B:00.0");
  EXPECT_EQ(little[1], "limits: unknown (nothing is told)");
}

// ---- kinet fields comm_param --------------------------------------------------------------------

TEST(CommFields, HaveASectionOfTheirOwn) {
  const std::string section = fields_section("comm_param");
  for (const char* field :
       {"`transport`", "`heartbeat_timeout`", "`sim.link`", "`sim.fault.kind`", "`sim.seed`"}) {
    EXPECT_NE(section.find(field), std::string::npos) << field;
  }
  // Clusters have links as well, so their fields are told once, apart.
  EXPECT_NE(fields_section("link_model_param").find("`latency`"), std::string::npos);
  EXPECT_EQ(fields_section("comm"), section);
  const std::string solver = fields_section("solver");
  EXPECT_NE(solver.find("`comm_param`"), std::string::npos);
  EXPECT_EQ(solver.find("heartbeat_timeout"), std::string::npos) << "it is told twice";
}

}  // namespace
}  // namespace kinet
