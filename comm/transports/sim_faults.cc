// What may go wrong in the virtual network: its fields, cuts, deaths, and the trace of events.
#include <fmt/format.h>

#include "comm/transports/sim.h"
#include "comm/transports/sim_endpoint.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kMicrosecond = 1e-6;

const MessageType& fault_fields() {
  static const MessageType kType{
      "fault",
      "Something that happens to a rank or a link at a given virtual time.",
      {enum_field("kind", {{"CUT", 0}, {"MEND", 1}, {"KILL", 2}, {"STOP", 3}, {"CONTINUE", 4}},
                  "KILL",
                  "CUT, MEND: the link between rank and peer carries nothing, and again; KILL: the "
                  "rank's process ends; STOP, CONTINUE: it stands still, and goes on"),
       float_field("at", "0", "seconds of virtual time"),
       uint_field("rank", "0", "the rank, or one end of the link"),
       uint_field("peer", "0", "the other end of the link")}};
  return kType;
}

double probability(const Params& params, const std::string& field) {
  const double p = params.get_double(field);
  if (p < 0 || p > 1) fail_at(params.where(field), field + " is a probability: 0 to 1");
  return p;
}

double not_negative(const Params& params, const std::string& field) {
  const double value = params.get_double(field);
  if (value < 0) fail_at(params.where(field), field + " may not be below 0");
  return value;
}

SimFault read_fault(const Params& params) {
  SimFault out;
  const std::string kind = params.get_enum("kind");
  const auto& values = fault_fields().find("kind")->values;
  for (const EnumValue& value : values) {
    if (value.name == kind) out.kind = static_cast<SimFault::Kind>(value.number);
  }
  out.at = not_negative(params, "at");
  out.rank = params.get_int32("rank");
  out.peer = params.get_int32("peer");
  return out;
}

const char* kind_name(SimPacket::Kind kind) {
  if (kind == SimPacket::Kind::kPut) return "put";
  return kind == SimPacket::Kind::kMessage ? "message" : "close";
}

}  // namespace

const MessageType& SimOptions::fields() {
  static const MessageType kType{
      "sim",
      "The virtual network of ranks of one process (kinet simulate, tests).",
      {message_field("link", LinkModel::fields(), "latency, bandwidth, shared links"),
       wide(int_field("seed", "1", "of all faults; the same seed gives the same run")),
       float_field("loss", "0", "probability that a transmission is lost and sent again"),
       float_field("retransmit_timeout", "1000", "microseconds until it is sent again"),
       uint_field("retries", "7", "times that it is sent again before the link is given up"),
       float_field("jitter", "0", "microseconds; extra delay of each, uniform from 0 to this"),
       float_field("reorder", "0", "probability that a packet is held back"),
       float_field("reorder_delay", "100", "microseconds that it is held back"),
       float_field("duplicate", "0", "probability that a packet comes twice"),
       repeated(message_field("fault", fault_fields(), "what happens to whom, and when"))}};
  return kType;
}

SimOptions SimOptions::from(const Params& params) {
  SimOptions out;
  out.link = LinkModel::parameters(params.message("link"));
  out.seed = static_cast<uint64_t>(params.get_int("seed"));
  out.loss = probability(params, "loss");
  out.retransmit_timeout = not_negative(params, "retransmit_timeout") * kMicrosecond;
  out.retries = params.get_int32("retries");
  out.jitter = not_negative(params, "jitter") * kMicrosecond;
  out.reorder = probability(params, "reorder");
  out.reorder_delay = not_negative(params, "reorder_delay") * kMicrosecond;
  out.duplicate = probability(params, "duplicate");
  for (const Params& fault : params.messages("fault")) out.faults.push_back(read_fault(fault));
  return out;
}

std::string SimWorld::describe() const {
  std::string out = fmt::format("sim: {}, seed {}", options_.link.describe(), options_.seed);
  if (options_.loss > 0) out += fmt::format(", loss {:.3g}", options_.loss);
  if (options_.jitter > 0) out += fmt::format(", jitter {:.4g} us", options_.jitter / kMicrosecond);
  if (options_.reorder > 0) out += fmt::format(", reorder {:.3g}", options_.reorder);
  if (options_.duplicate > 0) out += fmt::format(", duplicate {:.3g}", options_.duplicate);
  return out;
}

// ---- faults -------------------------------------------------------------------------------------

void SimWorld::fault(const SimFault& f) {
  const auto it = endpoints_.find(f.rank);
  const bool there = it != endpoints_.end() && !it->second->killed && !it->second->closed;
  switch (f.kind) {
    case SimFault::Kind::kCut:
      return cut(f);
    case SimFault::Kind::kMend:
      trace("mend", f.rank, f.peer, nullptr);
      cuts_.erase(std::minmax(f.rank, f.peer));
      return;
    case SimFault::Kind::kKill:
      if (there) kill(f.rank);
      return;
    default:
      if (!there) return;
      it->second->stopped = f.kind == SimFault::Kind::kStop;
      trace(it->second->stopped ? "stop" : "go on", f.rank, f.rank, nullptr);
      if (it->second->stopped) return;
      // What it wanted to send meanwhile was refused, and nothing else may ever wake it.
      for (const auto& [peer, link] : it->second->links) {
        it->second->inbox.push_back(
            {SimEvent::Kind::kRoom, peer, link.incarnation, 0, nullptr, ""});
      }
  }
}

// Both ends notice by the time in which repetitions run out, whether or not they have anything to
// send: real transports ask an idle peer for signs of life.
void SimWorld::cut(const SimFault& f) {
  trace("cut", f.rank, f.peer, nullptr);
  const auto link = std::minmax(f.rank, f.peer);
  const std::pair<Rank, Rank> ends = link;
  cuts_.insert(ends);
  after((options_.retries + 1) * options_.retransmit_timeout, [this, ends] {
    if (!is_cut(ends.first, ends.second)) return;
    const auto a = endpoints_.find(ends.first), b = endpoints_.find(ends.second);
    if (a == endpoints_.end() || b == endpoints_.end()) return;
    const std::string why = "the link is cut: nothing gets through any more";
    close_link(ends.first, a->second->incarnation, ends.second, b->second->incarnation, why);
    close_link(ends.second, b->second->incarnation, ends.first, a->second->incarnation, why);
  });
}

// The kernel of a dead process tells its peers, one latency later.
void SimWorld::kill(Rank rank) {
  SimEndpoint& dead = *endpoints_.at(rank);
  dead.killed = true;
  dead.killed_at = now_;
  trace("kill", rank, rank, nullptr);
  for (auto& [peer, link] : dead.links) {
    link.cancel_puts();
    after(model_.wire(rank, peer).latency,
          [this, rank, gone = dead.incarnation, at = peer, alive = link.incarnation] {
            close_link(at, alive, rank, gone, "its process ended");
          });
  }
}

bool SimWorld::killed(Rank rank) const {
  const Lock lock(mutex_);
  const auto it = endpoints_.find(rank);
  return it != endpoints_.end() && it->second->killed;
}

bool SimWorld::stopped(Rank rank) const {
  const Lock lock(mutex_);
  const auto it = endpoints_.find(rank);
  return it != endpoints_.end() && it->second->stopped;
}

// ---- the trace ----------------------------------------------------------------------------------

std::string SimWorld::legend() {
  return "# time    seconds of virtual time at which it happens\n"
         "# event   send: handed to the sender's link; again: sent once more after a time-out\n"
         "#         recv: the last byte is there; lost, twice (known, dropped), drop (nobody takes "
         "it)\n"
         "#         gone: `from` loses its link to `to`; cut, mend, kill, stop, go on: faults\n"
         "# number  of the packet on its link in this direction; try: 1 for the first attempt\n"
         "#          time event  from    to kind     number      bytes try note\n";
}

void SimWorld::trace(const char* event, Rank from, Rank to, const SimPacket* p,
                     const std::string& note) const {
  if (!options_.trace) return;
  std::string line = fmt::format("{:15.9f} {:<5} {:>5} {:>5} ", now_, event, from, to);
  if (p != nullptr) {
    line += fmt::format("{:<7} {:>7} {:>10} {:>3}", kind_name(p->kind), p->number, p->bytes,
                        p->attempt);
  } else {
    line += fmt::format("{:<7} {:>7} {:>10} {:>3}", "-", "-", "-", "-");
  }
  options_.trace(note.empty() ? line : line + " " + note);
}

}  // namespace kinet
