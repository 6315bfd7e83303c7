// What RDMA can do on this machine, and what to do when it cannot.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "comm/transports/verbs.h"
#include "comm/verbs/device.h"
#include "comm/verbs/memory_key.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr uint64_t kLittleMemory = 64ULL << 20;  // locked memory below which training will not do

std::string remedy_for(const std::vector<verbs::DeviceInfo>& devices) {
  if (devices.empty()) {
    return "this machine has no RDMA device; with an Ethernet card, Soft-RoCE makes one: "
           "'rdma link add rxe0 type rxe netdev eth0' (kernel module rdma_rxe)";
  }
  for (const verbs::DeviceInfo& device : devices) {
    if (!device.trouble.empty()) {
      return "may this user open /dev/infiniband/uverbs*? In a container: --device=/dev/infiniband";
    }
  }
  return "bring the port up: cable, 'ip link set ... up', on InfiniBand a subnet manager";
}

// Permissions of the files through which a process reaches the devices.
void add_files(TransportProbe& probe) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/infiniband", ignored)) {
    const std::string path = entry.path();
    if (path.find("uverbs") == std::string::npos) continue;
    const bool usable = access(path.c_str(), R_OK | W_OK) == 0;
    probe.details.push_back(
        fmt::format("{}: {}", path, usable ? "may be opened" : "may NOT be opened by this user"));
  }
}

void add_limit(TransportProbe& probe) {
  const uint64_t limit = verbs::memory_lock_limit();
  probe.details.push_back(limit == ~0ULL
                              ? "locked memory: not limited"
                              : fmt::format("locked memory: {} KiB (ulimit -l)", limit >> 10));
  if (limit >= kLittleMemory) return;
  probe.remedy =
      "raise the limit of locked memory: ulimit -l unlimited, or memlock in "
      "/etc/security/limits.d, or --ulimit memlock=-1 of a container";
}

void add_device(const verbs::Port& port, const verbs::Settings& settings, TransportProbe& probe) {
  const verbs::Device device(port);
  const std::string where = fmt::format("{} port {}", port.device, port.number);
  for (const verbs::GidEntry& entry : device.read_gids()) {
    probe.details.push_back(fmt::format("{}: {}", where, to_text(entry)));
  }
  const ibv_device_attr& limits = device.limits();
  probe.details.push_back(fmt::format(
      "{}: {} queue pairs, {} work requests each, {} completions, {} receives shared, message {} "
      "bytes",
      port.device, limits.max_qp, limits.max_qp_wr, limits.max_cqe, limits.max_srq_wr,
      port.max_message));
  probe.summary = fmt::format("works: {} (ACTIVE, {}, MTU {})", where,
                              port.ethernet ? "RoCE" : "InfiniBand", port.mtu);
  if (port.ethernet) {
    const verbs::GidEntry gid = verbs::choose_gid(device.read_gids(), settings.gid_index, where);
    probe.summary += ", " + to_text(gid);
  }
  probe.works = true;
}

}  // namespace

TransportProbe probe_verbs(const Params& params) {
  TransportProbe probe;
  const verbs::Settings settings = verbs::read_settings(params);
  const std::vector<verbs::DeviceInfo> devices = verbs::list_devices();
  probe.details = describe(devices);
  add_files(probe);
  add_limit(probe);
  try {
    add_device(verbs::choose_port(devices, settings, 0), settings, probe);
  } catch (const Error& error) {
    const std::string text = error.what();
    probe.works = false;
    probe.summary = devices.empty() ? "no RDMA device" : text.substr(0, text.find(';'));
    probe.remedy = remedy_for(devices);
  }
  return probe;
}

}  // namespace kinet
