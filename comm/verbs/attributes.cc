#include "comm/verbs/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/check.h"

namespace kinet::verbs {

Attributes to_init(const Settings& settings, const Port& port) {
  Attributes a;
  a.values.qp_state = IBV_QPS_INIT;
  a.values.pkey_index = static_cast<uint16_t>(settings.pkey_index);
  a.values.port_num = static_cast<uint8_t>(port.number);
  a.values.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  a.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  return a;
}

bool needs_route_header(const Port& port, const Path& path) {
  return port.ethernet || path.lid == 0;
}

Attributes to_rtr(const Settings& settings, const Port& port, const GidEntry& own, const Path& path,
                  const QueuePairAddress& peer) {
  Attributes a;
  a.values.qp_state = IBV_QPS_RTR;
  a.values.path_mtu = mtu_code(path.mtu);
  a.values.dest_qp_num = peer.number;
  a.values.rq_psn = peer.first_packet;
  a.values.max_dest_rd_atomic = static_cast<uint8_t>(settings.max_rd_atomic);
  a.values.min_rnr_timer = static_cast<uint8_t>(settings.min_rnr_timer);
  ibv_ah_attr& way = a.values.ah_attr;
  way.port_num = static_cast<uint8_t>(port.number);
  way.sl = static_cast<uint8_t>(settings.service_level);
  way.dlid = port.ethernet ? 0 : static_cast<uint16_t>(path.lid);
  if (needs_route_header(port, path)) {
    way.is_global = 1;
    std::memcpy(way.grh.dgid.raw, path.gid.data(), path.gid.size());
    way.grh.sgid_index = static_cast<uint8_t>(own.index);
    way.grh.hop_limit = static_cast<uint8_t>(settings.hop_limit);
    way.grh.traffic_class = static_cast<uint8_t>(settings.traffic_class);
  }
  a.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return a;
}

Attributes to_rts(const Settings& settings, const QueuePairAddress& own) {
  Attributes a;
  a.values.qp_state = IBV_QPS_RTS;
  a.values.sq_psn = own.first_packet;
  a.values.timeout = static_cast<uint8_t>(settings.timeout);
  a.values.retry_cnt = static_cast<uint8_t>(settings.retry_count);
  a.values.rnr_retry = static_cast<uint8_t>(settings.rnr_retry);
  a.values.max_rd_atomic = static_cast<uint8_t>(settings.max_rd_atomic);
  a.mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
           IBV_QP_MAX_QP_RD_ATOMIC;
  return a;
}

int mtu_bytes(ibv_mtu code) { return 128 << static_cast<int>(code); }

ibv_mtu mtu_code(int bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (128 << (code + 1)) <= bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

int path_mtu(int own, int peers, int wanted) {
  const int most = std::min(own, peers);
  KINET_CHECK(wanted <= most,
              "verbs: mtu {} is above the active MTU of {} port ({})\nhint: leave mtu out, or "
              "raise the MTU of that network interface",
              wanted, own < peers ? "the own" : "the peer's", most);
  return wanted > 0 ? wanted : most;
}

namespace {

void add_init(const ibv_qp_attr& v, std::vector<std::string>& out) {
  out.push_back(fmt::format("port_num {}", v.port_num));
  out.push_back(fmt::format("pkey_index {}", v.pkey_index));
  out.push_back(fmt::format("qp_access_flags {:#x}", v.qp_access_flags));
}

void add_rtr(const ibv_qp_attr& v, std::vector<std::string>& out) {
  out.push_back(fmt::format("path_mtu {}", mtu_bytes(v.path_mtu)));
  out.push_back(fmt::format("dest_qp_num {}", v.dest_qp_num));
  out.push_back(fmt::format("rq_psn {}", v.rq_psn));
  out.push_back(fmt::format("max_dest_rd_atomic {}", v.max_dest_rd_atomic));
  out.push_back(fmt::format("min_rnr_timer {}", v.min_rnr_timer));
  const ibv_ah_attr& way = v.ah_attr;
  out.push_back(fmt::format("port_num {}", way.port_num));
  out.push_back(fmt::format("dlid {}", way.dlid));
  out.push_back(fmt::format("sl {}", way.sl));
  out.push_back(fmt::format("is_global {}", way.is_global));
  if (way.is_global == 0) return;
  Gid gid;
  std::memcpy(gid.data(), way.grh.dgid.raw, gid.size());
  out.push_back(fmt::format("dgid {}", to_text(gid)));
  out.push_back(fmt::format("sgid_index {}", way.grh.sgid_index));
  out.push_back(fmt::format("hop_limit {}", way.grh.hop_limit));
  out.push_back(fmt::format("traffic_class {}", way.grh.traffic_class));
}

void add_rts(const ibv_qp_attr& v, std::vector<std::string>& out) {
  out.push_back(fmt::format("sq_psn {}", v.sq_psn));
  out.push_back(fmt::format("timeout {}", v.timeout));
  out.push_back(fmt::format("retry_cnt {}", v.retry_cnt));
  out.push_back(fmt::format("rnr_retry {}", v.rnr_retry));
  out.push_back(fmt::format("max_rd_atomic {}", v.max_rd_atomic));
}

std::string state_name(ibv_qp_state state) {
  static const char* const kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? kNames[state] : "?";
}

}  // namespace

std::string to_text(const Attributes& attributes) {
  std::vector<std::string> parts;
  const ibv_qp_attr& v = attributes.values;
  if (v.qp_state == IBV_QPS_INIT) add_init(v, parts);
  if (v.qp_state == IBV_QPS_RTR) add_rtr(v, parts);
  if (v.qp_state == IBV_QPS_RTS) add_rts(v, parts);
  std::string out = "to " + state_name(v.qp_state) + ":";
  for (const std::string& part : parts) out += (&part == parts.data() ? " " : ", ") + part;
  return out;
}

std::vector<std::string> suspicious(const Attributes& attributes, const Port& port) {
  std::vector<std::string> out;
  const ibv_qp_attr& v = attributes.values;
  if (!port.active) out.push_back(fmt::format("the port is {}", port.state));
  if (v.qp_state == IBV_QPS_INIT && v.pkey_index != 0) {
    out.push_back("pkey_index is not 0: is there such a partition?");
  }
  if (v.qp_state != IBV_QPS_RTR) return out;
  const ibv_ah_attr& way = v.ah_attr;
  if (mtu_bytes(v.path_mtu) > port.mtu) out.push_back("path_mtu is above the port's active MTU");
  if (port.ethernet && way.is_global == 0) out.push_back("is_global is 0 on Ethernet");
  if (!port.ethernet && way.dlid == 0 && way.is_global == 0) out.push_back("no LID and no GID");
  if (v.dest_qp_num == 0) out.push_back("dest_qp_num is 0");
  if (v.max_dest_rd_atomic > 16) out.push_back("max_dest_rd_atomic is above what most devices do");
  if (way.is_global == 0) return out;
  Gid gid;
  std::memcpy(gid.data(), way.grh.dgid.raw, gid.size());
  if (is_zero(gid)) out.push_back("dgid is empty");
  if (is_link_local(gid)) out.push_back("dgid is link-local: it ends at the next router");
  if (way.grh.hop_limit <= 1) out.push_back("hop_limit ends at the next router");
  return out;
}

}  // namespace kinet::verbs
