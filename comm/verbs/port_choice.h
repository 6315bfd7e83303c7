// Which port of which device a rank uses, and why not the others.
// Thread safety: pure functions; no device is touched.
#pragma once

#include <string>
#include <vector>

#include "comm/verbs/attributes.h"

namespace kinet::verbs {

struct DeviceInfo {
  std::string name;
  std::string trouble;  // why it cannot be opened, or ""
  std::vector<Port> ports;
};

// Names of asked-for devices are given out by local rank, in turn; without any, the active ports
// of the highest rate are. Throws Error with a line for each device: its state, why it is not used.
Port choose_port(const std::vector<DeviceInfo>& devices, const Settings& settings, int local_rank);

// "rxe0 port 1: DOWN", a line a port.
std::vector<std::string> describe(const std::vector<DeviceInfo>& devices);

}  // namespace kinet::verbs
