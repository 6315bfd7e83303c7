#include "src/sync/replay.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace kinet {
namespace {

bool close(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

}  // namespace

Replay::Replay(std::unique_ptr<SyncModel> logged, const Params& params, const SyncSetup& setup,
               std::vector<ReplayRound> rounds, std::string log, bool carries)
    : logged_(std::move(logged)),
      rounds_(std::move(rounds)),
      log_(std::move(log)),
      places_(setup.workers),
      next_seq_(setup.workers, 0),
      carries_(carries || logged_->make_worker_rule() != nullptr) {
  set_up(params, setup);
  check_rounds();
  find_places();
  count_slots();
}

void Replay::check_rounds() const {
  KINET_CHECK(!rounds_.empty(), "{}: no rounds in it\nhint: only runs with servers have them",
              log_);
  for (size_t i = 0; i < rounds_.size(); ++i) {
    const ReplayRound& r = rounds_[i];
    KINET_CHECK(i == 0 || r.number == rounds_[i - 1].number + 1,
                "{}: after round {} comes round {}; a log with a hole cannot be replayed", log_,
                rounds_[i - 1].number, r.number);
    KINET_CHECK(r.live == workers(),
                "{}: {} workers in round {}, {} now; a run in which workers were lost or joined "
                "cannot be replayed, nor one of another number",
                log_, r.live, r.number, workers());
    KINET_CHECK(r.note.find("worker ") == std::string::npos,
                "{}: round {}: {}; a run in which workers were lost or joined cannot be replayed",
                log_, r.number, r.note);
    for (const PlanMember& m : r.members) {
      KINET_CHECK(m.worker >= 0 && m.worker < workers() && m.lag >= 0 && m.lag < r.number,
                  "{}: round {} is damaged (worker {}, lag {})", log_, r.number, m.worker, m.lag);
    }
  }
}

void Replay::find_places() {
  for (const ReplayRound& r : rounds_) {
    for (const PlanMember& m : r.members) {
      const Place place{r.number - 1 - m.lag, r.number, m.use == Use::kDrop, m.steps};
      KINET_CHECK(places_[m.worker].emplace(m.seq, place).second,
                  "{}: gradient {} of worker {} twice, the second time in round {}", log_, m.seq,
                  m.worker, r.number);
    }
  }
  for (const Places& places : places_) {
    for (auto it = places.begin(); it != places.end(); ++it) {
      const auto after = std::next(it);
      if (after == places.end()) break;
      KINET_CHECK(after->second.version >= it->second.version,
                  "{}: damaged, gradient {} is older than the one before it", log_, after->first);
    }
  }
}

// As many gradients as lay at the servers when a worker went on, and the one that it went on to.
void Replay::count_slots() {
  for (const Places& places : places_) {
    for (auto it = places.begin(); it != places.end(); ++it) {
      int held = 1;
      for (auto before = places.begin(); before != it; ++before) {
        held += !before->second.dropped && before->second.round > it->second.version ? 1 : 0;
      }
      slots_ = std::max(slots_, held);
    }
  }
}

void Replay::start_at(int64_t version, const std::vector<int64_t>& next_seq) {
  SyncModel::start_at(version, next_seq);
  next_seq_ = next_seq;
  KINET_CHECK(version + 1 >= rounds_.front().number,
              "{}: begins with round {}, this run with round {}\nhint: a log that begins with a "
              "resumed run needs --resume with the same state",
              log_, rounds_.front().number, version + 1);
  for (int w = 0; w < workers(); ++w) {
    for (const auto& [seq, place] : places_[w]) {
      KINET_CHECK(place.round <= version || (place.version >= version && seq >= next_seq[w]),
                  "{}: gradient {} of worker {}, a member of round {}, is from before round {}, "
                  "where this run begins; replay the run from its start",
                  log_, seq, w, place.round, version);
    }
  }
  if (carries_) refuse_gaps();
}

void Replay::refuse_gaps() const {
  for (int w = 0; w < workers(); ++w) {
    int64_t due = next_seq_[w];
    for (auto it = places_[w].lower_bound(due); it != places_[w].end(); ++it, ++due) {
      KINET_CHECK(it->first == due,
                  "{}: gradient {} of worker {} was given up or not finite; such a run cannot be "
                  "replayed with local steps or a learning-rate search, which go on from it",
                  log_, due, w);
    }
  }
}

int64_t Replay::steps_of(int worker) const {
  const auto place = places_[worker].find(next_seq_[worker]);
  return place == places_[worker].end() ? local_steps() : place->second.steps;
}

int Replay::k() const {
  const ReplayRound* round = due_round();
  return round != nullptr ? round->k : rounds_.back().k;
}

std::string Replay::describe() const {
  return fmt::format("replay of rounds {} to {} of {}", rounds_.front().number,
                     rounds_.back().number, log_);
}

const ReplayRound* Replay::due_round() const {
  const int64_t index = version() + 1 - rounds_.front().number;
  if (index < 0 || index >= static_cast<int64_t>(rounds_.size())) return nullptr;
  return &rounds_[index];
}

bool Replay::may_answer(int worker) const {
  const auto place = places_[worker].lower_bound(next_seq_[worker]);
  if (place == places_[worker].end()) return false;  // the log has no more of it
  return place->first > next_seq_[worker] || place->second.version == version();
}

// Nobody has still to be given the newest weights.
bool Replay::all_answered() const {
  for (int w = 0; w < workers(); ++w) {
    const auto next = places_[w].lower_bound(next_seq_[w] + (waiting(w) ? 0 : 1));
    if (next != places_[w].end() && next->second.version <= version()) return false;
  }
  return true;
}

std::optional<Plan> Replay::decide(double) {
  const ReplayRound* round = due_round();
  if (round == nullptr) return std::nullopt;  // the end
  if (live() < workers()) {
    fail_runtime("round {}: a worker is lost; a replay needs all {} of {}", round->number,
                 workers(), log_);
  }
  if (auto plan = drop()) return plan;
  Plan plan;
  plan.k = round->k;
  for (int w = 0; w < workers(); ++w) {
    if (waiting(w) && may_answer(w)) plan.answer.push_back(w);
  }
  if (!plan.answer.empty()) return plan;
  return all_answered() ? apply(*round) : std::nullopt;
}

std::optional<Plan> Replay::drop() const {
  Plan plan;
  for (const Gradient& g : held()) {
    const auto place = places_[g.worker].find(g.seq);
    if (place == places_[g.worker].end() || place->second.dropped) {
      plan.members.push_back(member(g, 0, Use::kDrop));
    }
  }
  if (plan.members.empty()) return std::nullopt;
  plan.k = k();
  return plan;
}

std::optional<Plan> Replay::apply(const ReplayRound& round) {
  Plan plan;
  plan.k = round.k;
  plan.terms = round.terms;
  for (const PlanMember& m : round.members) {
    if (m.use == Use::kDrop) continue;
    const auto g = std::find_if(held().begin(), held().end(), [&](const Gradient& held) {
      return held.worker == m.worker && held.seq == m.seq;
    });
    if (g == held().end()) return std::nullopt;
    KINET_CHECK(lag(*g) == m.lag, "round {}: gradient {} of worker {} has lag {}, in the log {}",
                round.number, m.seq, m.worker, lag(*g), m.lag);
    plan.members.push_back(member(*g, m.weight, m.use));
  }
  applied_ = plan.members;
  return plan;
}

void Replay::measured(const RoundFacts& facts) {
  const ReplayRound& round = rounds_[facts.round - rounds_.front().number];
  constexpr const char* kHint =
      "\nhint: a replay needs the same solver file, seed, data, number of servers and threads";
  if (std::isfinite(round.loss) && !close(facts.loss, round.loss, 1e-5)) {
    fail_runtime("round {}: its loss is {:.6g}, in {} it was {:.6g}{}", round.number, facts.loss,
                 log_, round.loss, kHint);
  }
  auto applied = applied_.begin();
  for (const PlanMember& m : round.members) {
    if (m.use == Use::kDrop) continue;
    const double rate = facts.rate * (applied++)->rate;
    if (close(rate, m.rate, 1e-9)) continue;
    fail_runtime("round {}: the learning rate of worker {} is {:.6g}, in {} it was {:.6g}{}",
                 round.number, m.worker, rate, log_, m.rate, kHint);
  }
}

}  // namespace kinet
