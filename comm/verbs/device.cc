#include "comm/verbs/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"

namespace kinet::verbs {
namespace {

// Marks registered pages as not for children, which then crash on touching them: only for kernels
// that do not copy such pages on fork(). Too late or not needed is no error.
void make_fork_safe() {
  static const bool done = [] {
    if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED) ibv_fork_init();
    return true;
  }();
  static_cast<void>(done);
}

// The list that libibverbs hands out, freed at the end.
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  int count() const { return list_ == nullptr ? 0 : count_; }
  ibv_device* at(int i) const { return list_[i]; }
  ibv_device* find(const std::string& name) const {
    for (int i = 0; i < count(); ++i) {
      if (name == ibv_get_device_name(list_[i])) return list_[i];
    }
    return nullptr;
  }

 private:
  int count_ = 0;
  ibv_device** list_;
};

// Codes of the specification: lanes, and gigabits a lane.
double gigabits(const ibv_port_attr& port) {
  static constexpr std::array<std::pair<int, double>, 8> kLane{
      {{1, 2.5}, {2, 5}, {4, 10}, {8, 10}, {16, 14}, {32, 25}, {64, 50}, {128, 100}}};
  static constexpr std::array<std::pair<int, int>, 5> kLanes{
      {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
  double lane = 0;
  int lanes = 1;
  for (const auto& [code, rate] : kLane) {
    if (port.active_speed == code) lane = rate;
  }
  for (const auto& [code, count] : kLanes) {
    if (port.active_width == code) lanes = count;
  }
  return lane * lanes;
}

std::string state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT (no subnet manager?)";
    case IBV_PORT_ARMED:
      return "ARMED (no subnet manager?)";
    default:
      return "in an unknown state";
  }
}

Port to_port(const std::string& device, int number, const ibv_port_attr& attributes) {
  Port port;
  port.device = device;
  port.number = number;
  port.active = attributes.state == IBV_PORT_ACTIVE;
  port.state = state_name(attributes.state);
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.lid = attributes.lid;
  port.mtu = mtu_bytes(attributes.active_mtu);
  port.max_message = attributes.max_msg_sz;
  port.gigabits = gigabits(attributes);
  return port;
}

Port read_port(ibv_context* context, const std::string& device, int number) {
  ibv_port_attr attributes{};
  const int code = ibv_query_port(context, static_cast<uint8_t>(number), &attributes);
  if (code == 0) return to_port(device, number, attributes);
  Port port;
  port.device = device;
  port.number = number;
  port.state = system_error("unreadable", code);
  return port;
}

DeviceInfo look_at(ibv_device* device) {
  DeviceInfo info;
  info.name = ibv_get_device_name(device);
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) {
    info.trouble = system_error("cannot be opened", errno);
    return info;
  }
  ibv_device_attr limits{};
  if (const int code = ibv_query_device(context, &limits); code != 0) {
    info.trouble = system_error("cannot be asked", code);
  }
  for (int n = 1; n <= limits.phys_port_cnt; ++n) {
    info.ports.push_back(read_port(context, info.name, n));
  }
  ibv_close_device(context);
  return info;
}

}  // namespace

std::string system_error(const std::string& what, int code) {
  return fmt::format("{}: {}", what, std::strerror(code));
}

std::vector<DeviceInfo> list_devices() {
  make_fork_safe();
  const DeviceList list;
  std::vector<DeviceInfo> out;
  for (int i = 0; i < list.count(); ++i) out.push_back(look_at(list.at(i)));
  return out;
}

Device::Device(const Port& port) : name_(port.device), port_(port.number) {
  make_fork_safe();
  const DeviceList list;
  ibv_device* device = list.find(name_);
  KINET_CHECK(device != nullptr, "verbs: there is no RDMA device {}", name_);
  context_.reset(ibv_open_device(device));
  KINET_CHECK(context_ != nullptr, "verbs: {}", system_error(name_ + " cannot be opened", errno));
  domain_.reset(ibv_alloc_pd(context_.get()));
  KINET_CHECK(domain_ != nullptr, "verbs: {}",
              system_error("no protection domain on " + name_, errno));
  ibv_query_device(context_.get(), &limits_);
}

Port Device::read_port() const { return verbs::read_port(context_.get(), name_, port_); }

std::vector<GidEntry> Device::read_gids() const {
  std::vector<ibv_gid_entry> entries(256);
  const ssize_t count = ibv_query_gid_table(context_.get(), entries.data(), entries.size(), 0);
  std::vector<GidEntry> out;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& e = entries[i];
    if (static_cast<int>(e.port_num) != port_) continue;
    GidEntry entry;
    entry.index = static_cast<int>(e.gid_index);
    std::memcpy(entry.gid.data(), e.gid.raw, entry.gid.size());
    entry.type = e.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::kRoceV2
                 : e.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoceV1
                                                      : GidType::kInfiniband;
    out.push_back(entry);
  }
  return out;
}

}  // namespace kinet::verbs
