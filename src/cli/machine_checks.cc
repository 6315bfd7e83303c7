#include "src/cli/machine_checks.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "comm/rendezvous.h"
#include "comm/transport.h"
#include "data/image_loader.h"
#include "src/base/check.h"
#include "src/base/memory.h"
#include "src/base/shared_memory.h"
#include "src/base/text.h"
#include "src/math/blas.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

using Level = Finding::Level;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSmallLock = 64 * kMiB;  // arenas of small nets; more has to be registered
constexpr uint64_t kSmallShm = 64 * kMiB;   // what containers get by default
constexpr uint64_t kFewFiles = 1024;        // enough for about 150 ranks over shm
constexpr uint64_t kSharedTry = 1U << 16;   // bytes

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  std::string text = out.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// The number in "HugePages_Free:   12 kB", or 0.
uint64_t meminfo_number(const std::string& meminfo, const std::string& name) {
  const size_t at = meminfo.find(name + ":");
  if (at == std::string::npos) return 0;
  return std::strtoull(meminfo.c_str() + at + name.size() + 1, nullptr, 10);
}

uint64_t limit_of(int resource) {
  rlimit limit{};
  const bool known = getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
  return known && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

// ---- processor ----------------------------------------------------------------------------------

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  return CPU_COUNT(&set);
}

double core_quota() {  // of this control group (version 2); 0: none
  std::istringstream in(text_of("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  return in >> quota >> period && period > 0 ? quota / period : 0;
}

Finding numa() {
  const std::string online = text_of("/sys/devices/system/node/online");
  if (online.empty() || online == "0") return {"NUMA", Level::kGood, "one node", {}, ""};
  return {"NUMA",
          Level::kNote,
          "nodes " + online,
          {},
          "let each rank stay on one node: numactl --cpunodebind=N --membind=N"};
}

// OpenBLAS takes its oldest kernel for a processor that is newer than itself.
bool slow_blas_kernel(const std::string& description) {
  if (std::string(vec().name) == "generic") return false;
  for (const char* old : {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Barcelona"}) {
    if (description.find(std::string("kernel ") + old) != std::string::npos) return true;
  }
  return false;
}

// A product by hand beside the library's.
Finding arithmetic() {
  constexpr int kSize = 17;
  std::vector<float> a(kSize * kSize), b(kSize * kSize), c(kSize * kSize, 0);
  for (int i = 0; i < kSize * kSize; ++i) {
    a[i] = static_cast<float>(i % 7 - 3);
    b[i] = static_cast<float>(i % 5 - 2);
  }
  gemm(Trans::kNo, Trans::kNo, kSize, kSize, kSize, 1, a.data(), b.data(), 0, c.data());
  float worst = 0;
  for (int i = 0; i < kSize * kSize; ++i) {
    float sum = 0;
    for (int k = 0; k < kSize; ++k) sum += a[i / kSize * kSize + k] * b[k * kSize + i % kSize];
    worst = std::max(worst, std::abs(sum - c[i]));
  }
  const std::string what = blas_description() + "; vector kernels " + vec().name;
  if (worst == 0 && slow_blas_kernel(what)) {
    return {
        "arithmetic",
        Level::kNote,
        what,
        {},
        fmt::format("OpenBLAS does not know this processor and takes a kernel without AVX; several "
                    "times faster: OPENBLAS_CORETYPE={} kinet ...",
                    std::string(vec().name) == "avx512" ? "SkylakeX" : "Haswell")};
  }
  if (worst == 0) return {"arithmetic", Level::kGood, what, {}, ""};
  return {"arithmetic",
          Level::kBad,
          fmt::format("{}: a product is wrong by {}", what, worst),
          {},
          "install libopenblas-pthread-dev anew; see update-alternatives --list libblas.so.3"};
}

// ---- memory -------------------------------------------------------------------------------------

Finding memory() {
  const uint64_t there = meminfo_number(text_of("/proc/meminfo"), "MemAvailable") * 1024;
  return {
      "memory",
      Level::kGood,
      fmt::format("{}, of it free to use {}", human_bytes(physical_memory()), human_bytes(there)),
      {},
      ""};
}

Finding shared_memory() {
  try {
    const SharedMemory memory(kSharedTry, "kinet doctor");
    return {
        "shared memory", Level::kGood, "memfd works: arenas can be shared between ranks", {}, ""};
  } catch (const Error& error) {
    return {"shared memory",
            Level::kBad,
            error.what(),
            {},
            "allow memfd_create and mmap (seccomp of a container)"};
  }
}

Finding dev_shm() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) {
    return {"/dev/shm",
            Level::kNote,
            "is not there; kinet does not use it, MPI does",
            {},
            "mount a tmpfs there before you use transport mpi"};
  }
  const uint64_t bytes = static_cast<uint64_t>(info.f_blocks) * info.f_frsize;
  if (bytes > kSmallShm) return {"/dev/shm", Level::kGood, human_bytes(bytes), {}, ""};
  return {"/dev/shm",
          Level::kNote,
          human_bytes(bytes) + "; kinet does not use it, but MPI takes some for each rank",
          {},
          "docker run --shm-size=1g"};
}

// ---- names and walls ----------------------------------------------------------------------------

std::vector<std::string> addresses_of(const std::string& name) {
  std::vector<std::string> out;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return out;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      out.emplace_back(text.data());
    }
  }
  freeaddrinfo(found);
  return out;
}

std::string link_text(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::read_symlink(path, ignored).string();
}

// Two containers of one machine are two machines for transport shm.
Finding namespaces() {
  std::vector<std::string> own;
  for (const char* kind : {"net", "pid", "ipc"}) {
    const std::string first = link_text(std::string("/proc/1/ns/") + kind);
    const std::string mine = link_text(std::string("/proc/self/ns/") + kind);
    if (!first.empty() && first != mine) own.emplace_back(kind);
  }
  std::vector<std::string> details{"node identity: " + node_id()};
  if (own.empty()) return {"namespaces", Level::kGood, "those of process 1", details, ""};
  return {"namespaces", Level::kNote, "own ones: " + join(own, ", "), details,
          "ranks in other containers of this machine are reached over tcp or verbs, not shm"};
}

// The launcher watches its children with pidfd_open; a seccomp filter may forbid it.
Finding process_handles() {
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (fd >= 0) {
    close(fd);
    return {
        "process handles", Level::kGood, "pidfd_open works: a dead worker is seen at once", {}, ""};
  }
  return {"process handles",
          Level::kBad,
          "pidfd_open does not work: --workers cannot watch them",
          {},
          "a kernel from 5.3, and a container whose seccomp filter allows pidfd_open"};
}

Finding images() {
  try {
    require_image_library();
    return {"images", Level::kGood, "libkinet_image.so opens: JPEG, PNG", {}, ""};
  } catch (const Error& error) {
    const std::string text = error.what();
    return {"images",
            Level::kNote,
            text.substr(0, text.find('\n')),
            {},
            "make deps, then build kinet again; IDX, CIFAR and LMDB of raw pixels need it not"};
  }
}

}  // namespace

// ---- single checks ------------------------------------------------------------------------------

Finding cores_finding(int present, int usable, double quota) {
  const std::string all = fmt::format("{} core{}", present, present == 1 ? "" : "s");
  if (usable > 0 && usable < present) {
    return {"cores",
            Level::kNote,
            fmt::format("{}, of which this process may use {}", all, usable),
            {},
            "taskset and the container's cpuset say which; --threads counts them all"};
  }
  if (quota > 0 && quota < present) {
    return {"cores",
            Level::kNote,
            fmt::format("{}, of whose time this container gets {:.3g} cores", all, quota),
            {},
            fmt::format("--threads {} for each machine, all ranks together",
                        std::max(1, static_cast<int>(quota)))};
  }
  return {"cores", Level::kGood, all, {}, ""};
}

Finding memory_lock_finding(uint64_t limit) {
  if (limit == UINT64_MAX) return {"locked memory", Level::kGood, "no limit", {}, ""};
  const std::string text = human_bytes(limit) + " a process";
  if (limit > kSmallLock) return {"locked memory", Level::kGood, text, {}, ""};
  return {
      "locked memory",
      Level::kNote,
      text + ": RDMA (transport verbs) registers all arenas, which locks them",
      {},
      "ulimit -l unlimited; for good: 'memlock unlimited' in /etc/security/limits.conf; Docker: "
      "--ulimit memlock=-1"};
}

Finding huge_pages_finding(const std::string& meminfo) {
  const uint64_t total = meminfo_number(meminfo, "HugePages_Total");
  const uint64_t free = meminfo_number(meminfo, "HugePages_Free");
  const uint64_t bytes = meminfo_number(meminfo, "Hugepagesize") * 1024;
  if (total > 0) {
    return {"huge pages",
            Level::kGood,
            fmt::format("{} of {} free, {} each", free, total, human_bytes(bytes)),
            {},
            ""};
  }
  return {"huge pages",
          Level::kNote,
          "none reserved: registering and reaching large arenas is slower",
          {},
          "as root: sysctl vm.nr_hugepages=N, so that N times " + human_bytes(bytes) +
              " hold weights, gradients and history of all ranks"};
}

Finding open_files_finding(uint64_t limit) {
  if (limit == UINT64_MAX) return {"open files", Level::kGood, "no limit", {}, ""};
  const std::string text = fmt::format("{} a process", limit);
  if (limit >= kFewFiles) return {"open files", Level::kGood, text, {}, ""};
  return {
      "open files", Level::kNote, text + ": links to many ranks need more", {}, "ulimit -n 65536"};
}

Finding host_name_finding(const std::string& name, const std::vector<std::string>& addresses) {
  if (addresses.empty()) {
    return {"host name",
            Level::kNote,
            fmt::format("'{}' has no address: ranks on other machines cannot use it", name),
            {},
            "give --rendezvous an address instead of a name, or add the name to /etc/hosts"};
  }
  const bool loopback = std::all_of(addresses.begin(), addresses.end(), [](const std::string& a) {
    return a.starts_with("127.") || a == "::1";
  });
  const std::string text = name + " is " + join(addresses, ", ");
  if (!loopback) return {"host name", Level::kGood, text, {}, ""};
  return {"host name",
          Level::kNote,
          text + ": on other machines that is another machine",
          {},
          "give --rendezvous an address of the network that joins the machines"};
}

Finding trace_finding(const std::string& ptrace_scope) {
  if (ptrace_scope.empty() || ptrace_scope == "0") {
    return {"process tracing", Level::kGood, "free", {}, ""};
  }
  return {"process tracing",
          Level::kNote,
          "limited (ptrace_scope " + ptrace_scope +
              "): MPI cannot copy straight between ranks of one machine and is slower; debuggers "
              "cannot attach",
          {},
          "sysctl kernel.yama.ptrace_scope=0; Docker: --cap-add SYS_PTRACE"};
}

// ---- all of them --------------------------------------------------------------------------------

std::vector<Finding> machine_findings() {
  const std::string name = host_name();
  return {cores_finding(static_cast<int>(std::thread::hardware_concurrency()), usable_cores(),
                        core_quota()),
          numa(),
          arithmetic(),
          gpu_finding(),
          memory(),
          shared_memory(),
          huge_pages_finding(text_of("/proc/meminfo")),
          memory_lock_finding(limit_of(RLIMIT_MEMLOCK)),
          open_files_finding(limit_of(RLIMIT_NOFILE)),
          dev_shm(),
          process_handles(),
          trace_finding(text_of("/proc/sys/kernel/yama/ptrace_scope")),
          namespaces(),
          host_name_finding(name, addresses_of(name)),
          images()};
}

std::vector<Finding> transport_findings() {
  std::vector<Finding> out;
  bool joins_processes = false;
  const TransportRegistry& registry = TransportRegistry::instance();
  for (const std::string& name : registry.names()) {
    const TransportType& type = *registry.find(name);
    const TransportProbe probe = type.probe(Params(nullptr, type.fields));
    joins_processes =
        joins_processes || (probe.works && type.reach != Reach::kProcess && type.preference > 0);
    out.push_back({name, probe.works ? Level::kGood : Level::kNote, probe.summary, probe.details,
                   probe.remedy});
  }
  if (!joins_processes) {
    out.push_back({"workers",
                   Level::kBad,
                   "no transport joins processes: --workers cannot work",
                   {},
                   "see the remedies of shm and tcp"});
  }
  return out;
}

bool all_needed_works(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.level == Level::kBad; });
}

}  // namespace kinet
