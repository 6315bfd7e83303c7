#include "comm/link_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kGbit = 1e9 / 8;  // bytes a second

struct Preset {
  const char* name;
  double latency;    // microseconds
  double ns_a_byte;  // 0: without limit
};
// fdr, qdr, ethernet_10g: latency and time a byte of You, Buluc, Demmel, "Scaling Deep Learning on
// GPU and Knights Landing clusters", SC 2017, table of InfiniBand performance under the
// alpha-beta model. shm: chosen here, the order of a copy between two cores of one machine.
constexpr std::array<Preset, 5> kPresets{{{"ideal", 0, 0},
                                          {"shm", 0.5, 0.1},
                                          {"fdr", 0.7, 0.2},
                                          {"qdr", 1.2, 0.3},
                                          {"ethernet_10g", 7.2, 0.9}}};

Wire preset(const std::string& name) {
  const auto* it = std::find_if(kPresets.begin(), kPresets.end(),
                                [&](const Preset& p) { return name == p.name; });
  KINET_CHECK(it != kPresets.end(), "there is no link preset '{}'", name);
  return {it->latency * kMicrosecond, it->ns_a_byte > 0 ? 1e9 / it->ns_a_byte : 0, 0};
}

// The field's value when the file gives it, else what the preset says.
double value_or(const Params& params, const std::string& field, double unit, double otherwise) {
  if (!params.has(field)) return otherwise;
  const double value = params.get_double(field);
  if (value < 0) fail_at(params.where(field), fmt::format("{} may not be below 0", field));
  return value * unit;
}

std::string describe_wire(const Wire& wire) {
  const std::string speed =
      wire.bandwidth > 0 ? fmt::format("{:.4g} Gbit/s", wire.bandwidth / kGbit) : "any bandwidth";
  return fmt::format("{:.4g} us, {}, overhead {:.4g} us", wire.latency / kMicrosecond, speed,
                     wire.overhead / kMicrosecond);
}

}  // namespace

double Wire::cost(uint64_t bytes) const {
  return overhead + (bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0);
}

const MessageType& LinkModel::fields() {
  static const std::vector<EnumValue> kNames{
      {"ideal", 0}, {"shm", 1}, {"fdr", 2}, {"qdr", 3}, {"ethernet_10g", 4}};
  static const MessageType kType{
      "link_model_param",
      "The network of transport sim and of modelled clusters. A transmission of b bytes takes "
      "latency + message_overhead + "
      "b / bandwidth when it finds sender's and receiver's link idle; else it waits for them.",
      {enum_field("preset", kNames, "fdr",
                  "values of the fields that are not given: ideal (0 us, no limit), shm (0.5 us, "
                  "80 Gbit/s), fdr (0.7 us, 40 Gbit/s), qdr (1.2 us, 26.7 Gbit/s), ethernet_10g "
                  "(7.2 us, 8.89 Gbit/s)"),
       float_field("latency", "", "microseconds, one way"),
       float_field("bandwidth", "", "Gbit/s of a node's link, in each direction; 0: no limit"),
       float_field("message_overhead", "",
                   "microseconds that a transmission keeps a link busy beside its bytes"),
       uint_field("ranks_per_node", "1", "ranks that share one link; neighbours by rank"),
       enum_field("node_preset", kNames, "shm", "the same between ranks of one node"),
       float_field("node_latency", "", "microseconds between ranks of one node"),
       float_field("node_bandwidth", "", "Gbit/s between ranks of one node; 0: no limit"),
       float_field("node_overhead", "", "microseconds, as message_overhead")}};
  return kType;
}

LinkModel::Parameters LinkModel::parameters(const Params& params) {
  const auto read = [&](Wire wire, const std::string& latency, const std::string& bandwidth,
                        const std::string& overhead) {
    wire.latency = value_or(params, latency, kMicrosecond, wire.latency);
    wire.bandwidth = value_or(params, bandwidth, kGbit, wire.bandwidth);
    wire.overhead = value_or(params, overhead, kMicrosecond, wire.overhead);
    return wire;
  };
  Parameters out;
  out.network = read(preset(params.get_enum("preset")), "latency", "bandwidth", "message_overhead");
  out.node = read(preset(params.get_enum("node_preset")), "node_latency", "node_bandwidth",
                  "node_overhead");
  out.ranks_per_node = params.get_int32("ranks_per_node");
  if (out.ranks_per_node < 1) {
    fail_at(params.where("ranks_per_node"), "ranks_per_node has to be 1 or more");
  }
  return out;
}

std::string LinkModel::Parameters::describe() const {
  std::string out = describe_wire(network);
  if (ranks_per_node > 1) {
    out += fmt::format("; {} ranks a node, inside: {}", ranks_per_node, describe_wire(node));
  }
  return out;
}

LinkModel::LinkModel(const Parameters& parameters, int size)
    : parameters_(parameters),
      nics_((size + parameters.ranks_per_node - 1) / parameters.ranks_per_node),
      wires_(size) {}

bool LinkModel::same_node(Rank a, Rank b) const {
  return a / parameters_.ranks_per_node == b / parameters_.ranks_per_node;
}

const Wire& LinkModel::wire(Rank from, Rank to) const {
  return same_node(from, to) ? parameters_.node : parameters_.network;
}

LinkModel::Port& LinkModel::port(Rank rank, bool inside_node) {
  return inside_node ? wires_[rank] : nics_[rank / parameters_.ranks_per_node];
}

double LinkModel::transfer_time(Rank from, Rank to, uint64_t bytes) const {
  return wire(from, to).latency + wire(from, to).cost(bytes);
}

double LinkModel::leave(Rank from, Rank to, uint64_t bytes, double now) {
  Port& out = port(from, same_node(from, to));
  const double start = std::max(now, out.out_free);
  out.out_free = start + wire(from, to).cost(bytes);
  return start;
}

double LinkModel::arrive(Rank from, Rank to, uint64_t bytes, double now) {
  Port& in = port(to, same_node(from, to));
  in.in_free = std::max(now, in.in_free) + wire(from, to).cost(bytes);
  return in.in_free;
}

}  // namespace kinet
