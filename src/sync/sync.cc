#include "src/sync/sync.h"

#include <algorithm>
#include <array>

#include "src/base/text.h"

namespace kinet {
namespace {

constexpr std::array<std::pair<Use, const char*>, 7> kUses{{{Use::kFresh, "fresh"},
                                                            {Use::kOwnMomentum, "own"},
                                                            {Use::kOrdered, "ordered"},
                                                            {Use::kMomentum, "momentum"},
                                                            {Use::kDifference, "difference"},
                                                            {Use::kRule, "rule"},
                                                            {Use::kDrop, "drop"}}};

}  // namespace

const char* use_name(Use use) { return kUses[static_cast<size_t>(use)].second; }

std::optional<Use> use_of(const std::string& name) {
  for (const auto& [use, text] : kUses) {
    if (name == text) return use;
  }
  return std::nullopt;
}

bool Plan::applies() const {
  return std::any_of(members.begin(), members.end(),
                     [](const PlanMember& m) { return m.use != Use::kDrop; });
}

void SyncModel::set_up(const Params&, const SyncSetup& setup) {
  setup_ = setup;
  peers_.assign(setup.workers, Peer());
  live_ = 0;
  idle_.clear();
}

void SyncModel::note_idle(int worker) {
  const Peer& peer = peers_[worker];
  if (peer.waiting && peer.held == 0) {
    idle_.insert(worker);
  } else {
    idle_.erase(worker);
  }
}

// What a dead worker has pushed whole stays good.
void SyncModel::on_worker(int worker, bool alive) {
  Peer& peer = peers_[worker];
  live_ += static_cast<int>(alive) - static_cast<int>(peer.alive);
  peer.alive = peer.waiting = alive;
  note_idle(worker);
  worker_changed(worker);
}

void SyncModel::on_gradient(const Gradient& gradient) {
  held_.push_back(gradient);
  peers_[gradient.worker].waiting = true;
  ++peers_[gradient.worker].held;
  note_idle(gradient.worker);
  gradient_came(gradient);
}

void SyncModel::on_idle(int worker) {
  peers_[worker].waiting = true;
  note_idle(worker);
  idle_came(worker);
}

// Who waits and has nothing at the servers would wait for ever.
std::optional<Plan> SyncModel::next(double now) {
  Plan newcomers;
  for (const int w : idle_) {
    if (may_answer(w)) newcomers.answer.push_back(w);
  }
  if (newcomers.answer.empty()) return decide(now);
  newcomers.k = k();
  return newcomers;
}

void SyncModel::committed(const Plan& plan) {
  for (const PlanMember& m : plan.members) {
    const auto it = std::find_if(held_.begin(), held_.end(), [&](const Gradient& g) {
      return g.worker == m.worker && g.seq == m.seq;
    });
    KINET_CHECK(it != held_.end(), "gradient {} of worker {} is used twice, or was never there",
                m.seq, m.worker);
    held_.erase(it);
    --peers_[m.worker].held;
    note_idle(m.worker);
  }
  for (const int w : plan.answer) {
    KINET_CHECK(peers_[w].waiting, "worker {} is answered but does not wait", w);
    peers_[w].waiting = false;
    note_idle(w);
  }
  if (plan.applies()) ++version_;
}

std::unique_ptr<SyncModel> make_sync_model(const Params& sync_param, const SyncSetup& setup) {
  const std::string name = sync_param.get_string("model");
  const SyncRegistry& registry = SyncRegistry::instance();
  const SyncType* type = registry.find(name);
  if (type == nullptr) {
    fail_at(sync_param.where("model"),
            fmt::format("there is no synchronisation model '{}'{}\nhint: {}", name,
                        did_you_mean(name, registry.names()), join(registry.names(), ", ")));
  }
  std::unique_ptr<SyncModel> model = type->make();
  model->set_up(sync_param, setup);
  return model;
}

PlanMember SyncModel::member(const Gradient& g, double weight, Use use) const {
  return {g.worker, g.seq, weight, lag(g), g.rate, use, false, g.steps};
}

}  // namespace kinet
