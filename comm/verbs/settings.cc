#include "comm/verbs/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "src/base/check.h"

namespace kinet::verbs {
namespace {

// 7 is "for ever": for rnr_retry by the specification, for retry_count on Soft-RoCE.
constexpr int kMostRetries = 6;

int ranged(const Params& params, const std::string& field, int low, int high) {
  const int value = params.get_int32(field);
  if (value < low || value > high) {
    fail_at(params.where(field),
            fmt::format("verbs: {} {}; it has to be {} to {}", field, value, low, high));
  }
  return value;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    part.erase(std::remove(part.begin(), part.end(), ' '), part.end());
    if (!part.empty()) out.push_back(part);
  }
  return out;
}

void read_path(const Params& params, Settings& s) {
  s.devices = split(params.get_string("devices"));
  s.port = ranged(params, "port", 0, 255);
  s.gid_index = ranged(params, "gid_index", -1, 65535);
  s.mtu = ranged(params, "mtu", 0, 4096);
  if (s.mtu != 0 && s.mtu != 256 && s.mtu != 512 && s.mtu != 1024 && s.mtu != 2048 &&
      s.mtu != 4096) {
    fail_at(params.where("mtu"),
            fmt::format("verbs: mtu {}; there are 256, 512, 1024, 2048, 4096", s.mtu));
  }
  s.service_level = ranged(params, "service_level", 0, 15);
  s.traffic_class = ranged(params, "traffic_class", 0, 255);
  s.hop_limit = ranged(params, "hop_limit", 1, 255);
  s.pkey_index = ranged(params, "pkey_index", 0, 65535);
}

void read_queues(const Params& params, Settings& s) {
  s.queue_pairs = ranged(params, "queue_pairs", 1, 64);
  s.send_depth = ranged(params, "send_depth", 16, 16384);
  s.receive_depth = ranged(params, "receive_depth", 32, 16000);
  s.inline_bytes = ranged(params, "inline", 0, 4096);
  // A full window always has a signal under way: at most half of it goes without.
  s.signal_every = std::min(ranged(params, "signal_every", 1, 16384), s.send_depth / 2);
  s.max_piece = ranged(params, "max_piece", 0, 1 << 30);
  s.max_rd_atomic = ranged(params, "max_rd_atomic", 0, 128);
  s.relaxed_ordering = params.get_bool("relaxed_ordering");
  s.use_srq = params.get_bool("use_srq");
  s.events = params.get_bool("events");
}

}  // namespace

const MessageType& fields() {
  static const MessageType type{
      "verbs",
      "RDMA over reliable queue pairs",
      {
          string_field("devices", "",
                       "devices by local rank, as \"mlx5_0,mlx5_1\"; empty: the "
                       "fastest active ones in turn"),
          int_field("port", "0", "port of the device; 0: the first active one"),
          int_field("gid_index", "-1", "own address; -1: RoCE v2 and routable first"),
          int_field("mtu", "0", "bytes of a packet; 0: the smaller active MTU of both ports"),
          int_field("queue_pairs", "1", "queue pairs to one peer; whole puts take turns"),
          int_field("send_depth", "128", "work requests under way on a queue pair"),
          int_field("receive_depth", "256", "receives that one peer may consume before it waits"),
          int_field("inline", "128",
                    "bytes of a put or message that travel within the work "
                    "request; the device may grant less"),
          int_field("signal_every", "32", "work requests for each completion"),
          int_field("max_piece", "0", "bytes of one work request; 0: what both ports can"),
          int_field("timeout", "16", "a packet is sent again after 4.096 us x 2^timeout"),
          int_field("retry_count", "6", "times that a packet is sent again, 0 to 6"),
          int_field("rnr_retry", "6", "times that a receiver that is not ready is tried again"),
          int_field("min_rnr_timer", "12", "code of the pause between those; 12: 0.64 ms"),
          int_field("service_level", "0", "InfiniBand service level, RoCE priority"),
          int_field("traffic_class", "0", "of the route header: DSCP x 4"),
          int_field("hop_limit", "64", "of the route header"),
          int_field("max_rd_atomic", "1", "reads and atomics under way"),
          int_field("pkey_index", "0", "partition"),
          bool_field("relaxed_ordering", "false", "let the bus reorder writes of one put"),
          bool_field("use_srq", "true", "one queue of receives for all peers"),
          bool_field("events", "true", "sleep on the completion channel; false: short naps"),
      }};
  return type;
}

Settings read_settings(const Params& params) {
  Settings s;
  const Params p = params.present() ? params : Params(nullptr, &fields());
  read_path(p, s);
  read_queues(p, s);
  s.timeout = ranged(p, "timeout", 1, 31);  // 0 is "for ever"
  s.retry_count = ranged(p, "retry_count", 0, kMostRetries);
  s.rnr_retry = ranged(p, "rnr_retry", 0, kMostRetries);
  s.min_rnr_timer = ranged(p, "min_rnr_timer", 0, 31);
  return s;
}

std::string describe(const Settings& s) {
  return fmt::format(
      "queue_pairs {}, send_depth {}, receive_depth {}, signal_every {}, timeout {} ({:.3g} ms), "
      "retry_count {}, rnr_retry {}, min_rnr_timer {}, service_level {}, traffic_class {}, "
      "hop_limit {}, max_rd_atomic {}, pkey_index {}, relaxed_ordering {}, use_srq {}, events {}",
      s.queue_pairs, s.send_depth, s.receive_depth, s.signal_every, s.timeout,
      4.096e-3 * static_cast<double>(1ULL << s.timeout), s.retry_count, s.rnr_retry,
      s.min_rnr_timer, s.service_level, s.traffic_class, s.hop_limit, s.max_rd_atomic, s.pkey_index,
      s.relaxed_ordering, s.use_srq, s.events);
}

double give_up_seconds(const Settings& s) {
  return (s.retry_count + 1) * 4.096e-6 * static_cast<double>(1ULL << s.timeout);
}

}  // namespace kinet::verbs
