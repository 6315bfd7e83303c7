// A model that decides nothing: it follows the rounds of a log, so that the weights are those of
// the logged run, bit for bit, however fast workers and network are now.
//
// A gradient is determined by the version of the weights that it is computed at, its mini-batch and
// its worker's rate; the weights by the members of every round. So, with v = round - 1 - lag for a
// member of `round`:
//   worker i gets its answer for gradient s when version v is the newest
//   round r is applied when its members are there, and everybody who is to compute at version
//     r - 1 has been answered
//   gradients that the log drops are dropped; what it does not name (it was cancelled, or was not
//     finite) is computed at any version and dropped, as it uses up a mini-batch
// The order is that of the logged run, so nobody waits for ever.
//
// What cannot be followed is refused: a log with a hole, with workers that were lost or joined, or
// of other workers. Loss and rates of every round are compared with the log.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/sync/sync.h"

namespace kinet {

struct ReplayRound {
  int64_t number = 0;
  int k = 0, live = 0;
  double loss = 0;                  // to six digits
  std::vector<PlanMember> members;  // rate: learning rate of the schedule included
  std::vector<std::pair<std::string, double>> terms;
  std::string note;  // of the lead: workers that were lost or joined
};

class Replay : public SyncModel {
 public:
  // `logged`: the model that the log is of, set up. `log`: its name, for messages. `carries`: what
  // a worker computes depends on its gradients before (a learning-rate search, local steps), so
  // that all of them must be in the log. Throws Error when the log cannot be followed.
  Replay(std::unique_ptr<SyncModel> logged, const Params& params, const SyncSetup& setup,
         std::vector<ReplayRound> rounds, std::string log, bool carries);

  void start_at(int64_t version, const std::vector<int64_t>& next_seq) override;
  bool finished() const override { return version() >= rounds_.back().number; }
  void measured(const RoundFacts& facts) override;
  int slots() const override { return slots_; }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return logged_->make_server_rule();
  }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return logged_->make_worker_rule();
  }
  int64_t local_steps() const override { return logged_->local_steps(); }
  int64_t steps_of(int worker) const override;
  int k() const override;
  std::string describe() const override;

 protected:
  std::optional<Plan> decide(double now) override;
  void gradient_came(const Gradient& gradient) override { ++next_seq_[gradient.worker]; }
  void idle_came(int worker) override { ++next_seq_[worker]; }
  bool may_answer(int worker) const override;

 private:
  struct Place {
    int64_t version = 0, round = 0;  // it is computed at, and used in
    bool dropped = false;
    int64_t steps = 1;
  };
  using Places = std::map<int64_t, Place>;  // by seq
  void check_rounds() const;
  void find_places();
  void count_slots();
  void refuse_gaps() const;
  const ReplayRound* due_round() const;  // that makes the next version
  std::optional<Plan> drop() const;
  std::optional<Plan> apply(const ReplayRound& round);
  bool all_answered() const;

  const std::unique_ptr<SyncModel> logged_;
  const std::vector<ReplayRound> rounds_;
  const std::string log_;
  std::vector<Places> places_;       // by worker
  std::vector<int64_t> next_seq_;    // by worker: what comes next from it
  std::vector<PlanMember> applied_;  // by the last plan
  const bool carries_;
  int slots_ = 2;
};

}  // namespace kinet
