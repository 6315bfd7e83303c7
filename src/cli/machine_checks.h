// What of a machine matters to training and to ranks that talk: limits, memory, names, devices.
// `kinet doctor` shows it. Each check looks at one thing and says what it means and what to do.
// Thread safety: pure functions, but for what the machine itself changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kinet {

struct DeviceInfo;  // src/net/device.h
struct DeviceLimits;

struct Finding {
  // kNote: works, and could be better or does not matter to everybody; kBad: training fails.
  enum class Level { kGood, kNote, kBad };
  std::string subject;  // "huge pages"
  Level level = Level::kGood;
  std::string summary;
  std::vector<std::string> details;
  std::string remedy;  // of kNote and kBad
};

std::vector<Finding> machine_findings();
// Which GPUs can be used, or why none can (gpu_check.cc).
Finding gpu_finding();
// "limits: 66.9 TFLOP/s float32, 4.9 TB/s memory (computed from what)".
std::string limits_line(const DeviceLimits& limits);
// What a user may want to know of one GPU, a line each; `free_bytes` 0: unknown.
std::vector<std::string> gpu_lines(const DeviceInfo& gpu, size_t free_bytes);

// Every transport of the registry, by its own probe. Bad only when no transport joins processes of
// this machine: then training with several workers is impossible.
std::vector<Finding> transport_findings();

// Whether training works on this machine: nothing is bad.
bool all_needed_works(const std::vector<Finding>& findings);

// --- single checks, for tests. `meminfo`: text of /proc/meminfo.
Finding memory_lock_finding(uint64_t limit);  // bytes; UINT64_MAX: none
Finding huge_pages_finding(const std::string& meminfo);
Finding open_files_finding(uint64_t limit);
Finding host_name_finding(const std::string& name, const std::vector<std::string>& addresses);
Finding cores_finding(int present, int usable, double quota);  // quota in cores; 0: none
Finding trace_finding(const std::string& ptrace_scope);        // "" where there is no such limit

}  // namespace kinet
