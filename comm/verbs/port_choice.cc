#include "comm/verbs/port_choice.h"

#include <fmt/format.h>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet::verbs {
namespace {

std::string describe(const Port& port) {
  return fmt::format("{} port {}: {}, {}, MTU {}, {:.3g} Gb/s", port.device, port.number,
                     port.state, port.ethernet ? "Ethernet (RoCE)" : "InfiniBand", port.mtu,
                     port.gigabits);
}

bool fits(const Port& port, const Settings& settings) {
  return port.active && (settings.port == 0 || settings.port == port.number);
}

// The first active port of each device.
std::vector<Port> candidates(const std::vector<DeviceInfo>& devices, const Settings& settings) {
  std::vector<Port> out;
  for (const DeviceInfo& device : devices) {
    for (const Port& port : device.ports) {
      if (!fits(port, settings)) continue;
      out.push_back(port);
      break;
    }
  }
  return out;
}

[[noreturn]] void give_up(const std::string& what, const std::vector<DeviceInfo>& devices) {
  fail("verbs: {}; this machine has:\n  {}\nhint: kinet doctor says what to do", what,
       devices.empty() ? "no RDMA device" : join(describe(devices), "\n  "));
}

}  // namespace

std::vector<std::string> describe(const std::vector<DeviceInfo>& devices) {
  std::vector<std::string> out;
  for (const DeviceInfo& device : devices) {
    if (!device.trouble.empty()) out.push_back(device.name + ": " + device.trouble);
    for (const Port& port : device.ports) out.push_back(describe(port));
  }
  return out;
}

Port choose_port(const std::vector<DeviceInfo>& devices, const Settings& settings, int local_rank) {
  std::vector<Port> found = candidates(devices, settings);
  if (!settings.devices.empty()) {
    const std::string& name = settings.devices[local_rank % settings.devices.size()];
    for (const Port& port : found) {
      if (port.device == name) return port;
    }
    give_up(fmt::format("device {}{} cannot be used", name,
                        settings.port == 0 ? "" : fmt::format(" port {}", settings.port)),
            devices);
  }
  double best = 0;
  for (const Port& port : found) best = std::max(best, port.gigabits);
  std::erase_if(found, [&](const Port& port) { return port.gigabits < best; });
  if (found.empty()) give_up("no port is active", devices);
  return found[local_rank % found.size()];
}

}  // namespace kinet::verbs
