// Routes: which transport leads to whom, connecting, and successors of lost ranks.
//
// Both ends of a link have to choose alike. So every rank publishes what works on its side, best
// first, and a link takes the best that works on both and reaches that far.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <sstream>

#include "comm/comm_fields.h"
#include "comm/communicator_impl.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

const TransportType& type_of(const std::string& name) {
  const TransportType* type = TransportRegistry::instance().find(name);
  KINET_CHECK(type != nullptr,
              "there is no transport '{}' in this build\nhint: there are {}; verbs needs "
              "libibverbs-dev, mpi an MPI, when kinet is built",
              name, join(TransportRegistry::instance().names(), ", "));
  return *type;
}

Params params_of(const CommOptions& options, const TransportType& type) {
  if (type.fields == nullptr) return {nullptr, nullptr};
  return Params(options.params.node(), &comm_fields()).message(type.name);
}

// Works between two ranks as far as reach goes.
bool reaches(const TransportType& type, const Member& a, const Member& b, bool one_process) {
  switch (type.reach) {
    case Reach::kProcess:
      return one_process;
    case Reach::kNode:
      return a.node == b.node;
    case Reach::kNetwork:
      return true;
  }
  return false;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::string works_key(Rank rank, uint32_t incarnation) {
  return fmt::format("works/{}.{}", rank, incarnation);
}

}  // namespace

// A transport that was asked for and cannot start is an error; on "auto" those that do not work are
// left out, and the routes that were chosen instead are printed.
void Communicator::Impl::find_usable() {
  std::vector<std::pair<int, std::string>> found;
  const bool one_process = options.runtime.inproc != nullptr;
  const bool automatic = wanted == "auto";
  if (!automatic) type_of(wanted);
  for (const std::string& name : TransportRegistry::instance().names()) {
    const TransportType& type = type_of(name);
    if (automatic ? type.preference == 0 : name != wanted) continue;
    if (automatic && type.reach == Reach::kProcess && !one_process) continue;
    const TransportProbe probe = type.probe(params_of(options, type));
    if (probe.works) {
      found.emplace_back(-type.preference, name);
    } else {
      KINET_CHECK(automatic, "transport {} does not work on this machine: {}\nhint: {}", name,
                  probe.summary, probe.remedy.empty() ? "see kinet doctor" : probe.remedy);
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& [order, name] : found) usable.push_back(name);
  rendezvous->set(works_key(world.rank, peers[world.rank].incarnation), join(usable, " "));
}

std::string Communicator::Impl::choose(Rank peer) {
  const std::vector<std::string> theirs =
      words(rendezvous->get(works_key(peer, peers[peer].incarnation), setup_timeout, peer));
  const bool one_process = options.runtime.inproc != nullptr || options.runtime.sim != nullptr;
  for (const std::string& name : usable) {
    if (std::find(theirs.begin(), theirs.end(), name) == theirs.end()) continue;
    if (reaches(type_of(name), world.members[world.rank], world.members[peer], one_process)) {
      return name;
    }
  }
  if (wanted != "auto") {
    fail(
        "transport {} does not lead from rank {} (host {}) to {}\nhint: --transport auto takes "
        "another one where it has to",
        wanted, world.rank, world.members[world.rank].host, name_of(peer));
  }
  fail("no transport leads to {}: here work {}; there {}", name_of(peer), join(usable, ", "),
       join(theirs, ", "));
}

Transport& Communicator::Impl::transport(const std::string& name) {
  std::unique_ptr<Transport>& slot = transports[name];
  if (!slot) {
    const TransportType& type = type_of(name);
    TransportConfig config;
    config.rank = world.rank;
    config.size = world.size;
    config.local_rank = world.local_rank();
    config.incarnation = peers[world.rank].incarnation;
    config.one_node = world.local_size() == world.size;
    config.token = world.token;
    config.params = params_of(options, type);
    config.timeout = setup_timeout;
    config.runtime = options.runtime;
    slot = type.make(config);
    if (linked) build_wait_set();
  }
  return *slot;
}

std::string Communicator::Impl::offer_key(Rank from, uint32_t from_incarnation, Rank to,
                                          uint32_t to_incarnation) const {
  return fmt::format("offer/{}.{}/{}.{}", from, from_incarnation, to, to_incarnation);
}

void Communicator::Impl::link(Rank peer) {
  if (peer == world.rank) return;
  Peer& p = peers[peer];
  p.transport_name = choose(peer);
  p.transport = &transport(p.transport_name);
  rendezvous->set(offer_key(world.rank, peers[world.rank].incarnation, peer, p.incarnation),
                  p.transport->offer(peer));
}

void Communicator::Impl::connect(Rank peer) {
  if (peer == world.rank) return;
  Peer& p = peers[peer];
  const std::string offer =
      rendezvous->get(offer_key(peer, p.incarnation, world.rank, peers[world.rank].incarnation),
                      setup_timeout, peer);
  p.transport->connect(peer, p.incarnation, offer);
}

void Communicator::Impl::wait_for_links() {
  const double started = steady_now();
  const auto missing = [this] {
    std::vector<Rank> out;
    for (Rank r = 0; r < world.size; ++r) {
      if (peers[r].state == PeerState::kConnecting) out.push_back(r);
    }
    return out;
  };
  for (std::vector<Rank> wait = missing(); !wait.empty(); wait = missing()) {
    if (progress() == 0) sleep(0.01);
    check_self();
    if (!losses.empty()) {
      fail_runtime("{} was lost while the ranks connected: {}", name_of(losses.front()),
                   peers[losses.front()].why_lost);
    }
    if (steady_now() - started > setup_timeout) {
      const Peer& p = peers[wait.front()];
      fail_runtime("no link to {} over {} within {:.3g} s\n{}", name_of(wait.front()),
                   p.transport_name, setup_timeout, describe_states());
    }
  }
  linked = true;
}

// One line for each transport: "shm to ranks 1, 2, 3".
void Communicator::Impl::tell_routes() const {
  std::map<std::string, std::vector<std::string>> to;
  for (Rank r = 0; r < world.size; ++r) {
    if (peers[r].transport != nullptr) to[peers[r].transport_name].push_back(std::to_string(r));
  }
  for (const auto& [name, ranks] : to) {
    log(fmt::format("Rank {}: transport {} ({}) to rank{} {}", world.rank, name,
                    wanted == "auto" ? "chosen" : "as asked", ranks.size() == 1 ? "" : "s",
                    join(ranks, ", ")));
  }
}

// Kept until the rendezvous has been polled: linking asks it for more.
void Communicator::Impl::on_member_joined(Rank rank, const Member& member) {
  joining.emplace_back(rank, member);
}

// A new process takes the place of a lost rank: nothing of the old link is used again.
void Communicator::Impl::admit(Rank rank, const Member& member) {
  Peer& p = peers[rank];
  if (rank == world.rank || member.incarnation <= p.incarnation) return;
  if (p.state == PeerState::kAlive)
    end_link(rank, PeerState::kLost, "another process took its place");
  const uint64_t posted = p.posted;
  p = Peer{};
  p.posted = p.completed = p.first_posted = posted;
  p.incarnation = member.incarnation;
  world.members[rank] = member;
  try {
    link(rank);
    connect(rank);
  } catch (const Error& error) {
    lose(rank, error.what());
  }
}

void Communicator::Impl::on_connected(Rank peer) {
  Peer& p = peers[peer];
  if (p.state != PeerState::kConnecting) return;
  p.state = PeerState::kAlive;
  heard_from(peer);
  p.beat_changed = p.heard;
  if (!linked) return;
  log(fmt::format("{} joined as incarnation {}", name_of(peer), p.incarnation));
  const auto handlers = join_handlers;  // one of them may remove itself
  for (const auto& [number, handler] : handlers) handler(peer);
}

std::string Communicator::Impl::name_of(Rank peer) const {
  const Member& m = world.members[peer];
  return fmt::format("rank {} (host {}, process {})", peer, m.host, m.process);
}

}  // namespace kinet
