#include "src/sim/cluster_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/solver/overrides.h"

namespace kinet {
namespace {

constexpr double kMicrosecond = 1e-6, kGigabyte = 1e9;

const MessageType& server_fields() {
  static const MessageType kType{
      "server",
      "What a server needs for a push: per_push_us, and the time of the vectors that it reads and "
      "writes.",
      {float_field("per_push_us", "0", "microseconds of a push beside its bytes"),
       float_field("memory_gbytes", "10",
                   "gigabytes a second that a server reads and writes while it applies a push"),
       enum_field(
           "exchange", {{"LINKS", 0}, {"COPIES", 1}, {"TREE", 2}}, "LINKS",
           "LINKS: pushes and answers go over the servers' links, full duplex, whenever these "
           "are free; COPIES: the server fetches each push when it takes it, and brings each "
           "answer, one after the other, and does nothing else meanwhile; TREE: pushes of "
           "models that wait for all (sync_easgd) are summed by a binomial tree and answers "
           "spread by one, those of other models go as with LINKS"),
       bool_field(
           "resident", "false",
           "with TREE: the weights lie with one of the workers, so that the tree has one rank "
           "less")}};
  return kType;
}

const MessageType& event_fields() {
  static const MessageType kType{
      "event",
      "A worker that dies or joins.",
      {enum_field("kind", {{"LEAVE", 0}, {"JOIN", 1}}, "LEAVE",
                  "LEAVE: the worker dies, with what it computes; JOIN: it, or a successor, comes"),
       float_field("at", "0", "seconds since the run began"),
       uint_field("worker", "0", "its number")}};
  return kType;
}

ServerCosts read_server(const Params& p, Diagnostics& diagnostics) {
  ServerCosts out;
  out.per_push = p.get_double("per_push_us") * kMicrosecond;
  out.bytes_per_second = p.get_double("memory_gbytes") * kGigabyte;
  const std::string& exchange = p.get_enum("exchange");
  using Exchange = ServerCosts::Exchange;
  if (exchange == "COPIES") out.exchange = Exchange::kCopies;
  if (exchange == "TREE") out.exchange = Exchange::kTree;
  out.resident = p.get_bool("resident");
  if (out.resident && out.exchange != Exchange::kTree) {
    diagnostics.error(p.where("resident"), "resident goes with exchange: TREE alone");
  }
  if (out.per_push < 0) {
    diagnostics.error(p.where("per_push_us"), "per_push_us may not be below 0");
  }
  if (out.bytes_per_second <= 0) {
    diagnostics.error(p.where("memory_gbytes"), "memory_gbytes must be above 0");
  }
  return out;
}

// By time; those of one time as they stand in the file.
std::vector<ClusterEvent> read_events(const Params& profile, Diagnostics& diagnostics) {
  using Kind = ClusterEvent::Kind;
  struct Placed {
    ClusterEvent event;
    Position where;
  };
  std::vector<Placed> placed;
  for (const Params& p : profile.messages("event")) {
    const Kind kind = p.get_enum("kind") == "JOIN" ? Kind::kJoin : Kind::kLeave;
    placed.push_back({{kind, p.get_double("at"), p.get_int32("worker")}, p.where()});
    if (placed.back().event.at < 0) {
      diagnostics.error(p.where("at"), "an event lies at 0 seconds or later");
    }
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return a.event.at < b.event.at; });
  std::map<int, Kind> last;
  std::vector<ClusterEvent> out;
  for (const auto& [event, where] : placed) {
    const auto before = last.find(event.worker);
    if (before != last.end() && before->second == event.kind) {
      diagnostics.error(where,
                        fmt::format("at {:g} s worker {} {} a second time", event.at, event.worker,
                                    event.kind == Kind::kJoin ? "joins" : "leaves"));
    }
    last[event.worker] = event.kind;
    out.push_back(event);
  }
  return out;
}

Position whole_file(const std::string& path) {
  return {std::make_shared<const std::string>(path), 0, 0};
}

}  // namespace

const MessageType& ClusterProfile::fields() {
  static const MessageType kType{
      "cluster",
      "A cluster that `kinet simulate --cluster FILE` models: models/clusters/*.prototxt.",
      {string_field("name", "", "what it is called in tables; the file's name when left out"),
       string_field("source", "", "where its figures come from, for people"),
       message_field("compute", StepSettings::fields(), "how long gradients take"),
       message_field("network", LinkModel::fields(), "how bytes travel"),
       message_field("server", server_fields(), "what servers need for a push"),
       repeated(message_field("event", event_fields(), "who dies and joins, and when"))}};
  return kType;
}

ClusterProfile ClusterProfile::load(const std::string& path, uint64_t seed,
                                    const std::vector<std::string>& set) {
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(read_file(path), path, diagnostics);
  for (const std::string& assignment : set) {
    apply_override(assignment, fields(), root, diagnostics);
  }
  validate(root, fields(), "cluster", diagnostics);
  diagnostics.throw_if_any();
  const Params p(&root, &fields());
  ClusterProfile out;
  out.path = path;
  out.name = p.has("name") ? p.get_string("name") : std::filesystem::path(path).stem().string();
  out.source = p.get_string("source");
  StepSettings steps;
  if (p.has("compute")) {
    steps = StepSettings::from(p.message("compute"), diagnostics);
  } else {
    diagnostics.error(whole_file(path),
                      "there is no compute { }\nhint: compute { clock: GAMMA mean: "
                      "0.1 }, how long a gradient takes");
  }
  try {
    out.link = LinkModel::parameters(p.message("network"));
  } catch (const Error& error) {
    diagnostics.error({}, error.what());  // it says where
  }
  out.server = read_server(p.message("server"), diagnostics);
  out.events = read_events(p, diagnostics);
  diagnostics.throw_if_any();
  out.steps = make_step_times(steps, seed);
  return out;
}

std::string ClusterProfile::describe() const {
  std::string out = fmt::format(
      "{}: a gradient takes {}; network {}; server {:.4g} us a push, "
      "{:.4g} GB/s",
      name, steps->describe(), link.describe(), server.per_push / kMicrosecond,
      server.bytes_per_second / kGigabyte);
  if (!events.empty()) out += fmt::format("; {} deaths and joins", events.size());
  return out;
}

}  // namespace kinet
