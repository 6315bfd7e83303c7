// The contract of a synchronisation model: who decides whose gradients make the next update.
//
// A run has servers and workers. A worker computes a gradient at the weights of some version and
// pushes it; the servers hold the weights in slices, one slice each. The first server is the lead:
// its model is told what arrives and answers with plans. A plan that applies gradients is a *round*
// and makes the next version of the weights; a plan without members only answers workers.
//
//   on_worker, on_gradient, on_idle  ->  next()  ->  committed(), measured()
//
// A model is a state machine: it never waits, sleeps or looks at a clock, and draws no random
// number of its own, so that the same object runs over real transports and on virtual time, and a
// scripted sequence of calls gives the same plans every time.
//
// Iterations: the weights of a round's members sum to the part of a full update that it is; the
//   iteration of the run is the sum over all rounds. N workers whose pushes weigh 1/N each make one
//   iteration of N pushes, as one bulk-synchronous round does.
// Lag: versions made between the weights a gradient was computed at and its round.
// Invariants: a gradient is a member of one plan only; 1 <= k <= live workers (but where k counts
//   mini-batches, whoever made them); only a worker that waits is answered.
// Thread safety: none; the lead's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/registry.h"
#include "src/prototxt/fields.h"
#include "src/sync/rule.h"

namespace kinet {

// A gradient that has arrived whole at every server.
struct Gradient {
  int worker = 0;
  int64_t seq = 0;          // number of the gradient among those of its worker
  int64_t version = 0;      // of the weights that it was computed at
  int64_t steps = 1;        // mini-batches behind it (local SGD: several)
  double loss = 0;          // mean over its samples
  double norm_squared = 0;  // |g|^2
  double rate = 1;          // the worker's own factor on the schedule's learning rate
  double seconds = 0;       // from the answer that began it to its arrival
};

// How the servers use a gradient; w its weight, tau its lag, m the momentum, eta the rate.
enum class Use : uint8_t {
  kFresh,        // g = sum of w g over all fresh ones; one update by the solver's rule
  kOwnMomentum,  // v_i = m v_i + eta w g,  theta -= m v_i + eta w g: the worker's own momentum
  kOrdered,      // as if it had been on time: v += m^tau eta w g,
                 //   theta -= (1 - m^(tau+1)) / (1 - m) eta w g
  kMomentum,     // into the momentum alone: v += m^tau eta w g
  kDifference,   // theta -= w d, where d = base weights - the worker's weights (local SGD)
  kRule,         // by the model's own ServerRule
  kDrop,
};
const char* use_name(Use use);
std::optional<Use> use_of(const std::string& name);

struct PlanMember {
  int worker = 0;
  int64_t seq = 0;
  double weight = 0;
  int lag = 0;
  double rate = 1;
  Use use = Use::kFresh;
  bool grouped = false;  // one of those at the same weights, whose mean is measured
  int64_t steps = 1;     // mini-batches behind it
};

struct Plan {
  std::vector<PlanMember> members;
  std::vector<int> answer;  // workers that get the newest weights; all of them wait
  std::vector<int> cancel;  // workers that are to give up what they compute
  int k = 0;
  std::vector<std::pair<std::string, double>> terms;  // what decided k, for the log
  std::string note;

  bool applies() const;  // a round: some member is not dropped
};

// What a model gets to know of a round after it was applied.
struct RoundFacts {
  int64_t round = 0;
  double iteration = 0;     // after it
  bool mean_known = false;  // |mean|^2 of the grouped members was measured
  double mean_squared = 0;  //   (of fresh members in every round, of others with the norms)
  bool product_known = false;
  double product = 0;          // <mean, mean of the round before>
  double service_seconds = 0;  // that the servers took for the round, by member
  double rate = 0;             // of the schedule
  double loss = 0;             // weighted mean of its members
  bool norms = false;          // the rest was measured
  double momentum_norm = 0;    // |v|, learning rate inside; own momenta: of their sum
  double step_norm = 0;        // |theta - theta at the last measurement| an iteration
  double weight_norm = 0;
};

struct SyncSetup {
  int workers = 1;
  double momentum = 0;  // of the solver file
  std::string solver_type = "SGD";
  size_t floats = 0;  // parameters of the net; 0: not known
};

class SyncModel {
 public:
  virtual ~SyncModel() = default;

  // `params`: sync_param, of which the fields outlive the model.
  virtual void set_up(const Params& params, const SyncSetup& setup);

  // Events. A worker that joins waits for its first answer.
  void on_worker(int worker, bool alive);
  void on_gradient(const Gradient& gradient);
  void on_idle(int worker);  // it gave up what it computed, or that was not finite

  // The next plan, or nothing until something happens.
  std::optional<Plan> next(double now);
  void committed(const Plan& plan);  // by whoever carries plans out
  virtual void measured(const RoundFacts&) {}

  // Gradients of one worker that may lie unused at the servers.
  virtual int slots() const { return 2; }
  // Arithmetic of its own at the servers (members of Use::kRule), at the workers; null: none.
  virtual std::unique_ptr<ServerRule> make_server_rule() const { return nullptr; }
  virtual std::unique_ptr<WorkerRule> make_worker_rule() const { return nullptr; }
  virtual int64_t local_steps() const { return 1; }
  // The same for the next push of one worker: a replay knows them one by one.
  virtual int64_t steps_of(int /*worker*/) const { return local_steps(); }
  // Every round is of all live workers: what they push can be summed on its way to the servers.
  virtual bool of_all() const { return false; }
  virtual bool wants_norms(int64_t /*round*/) const { return false; }
  virtual bool wants_product() const { return false; }
  virtual int k() const { return live(); }
  // For the first line of a run: "K-sync, k = 3 of 4".
  virtual std::string describe() const = 0;

  // What a snapshot has to hold so that a run goes on as if it had never stopped.
  virtual std::vector<double> state() const { return {}; }
  virtual void restore(const std::vector<double>&) {}
  // Where the run begins: the version, and the number of each worker's next gradient.
  virtual void start_at(int64_t version, const std::vector<int64_t>& /*next_seq*/) {
    version_ = version;
  }
  // There is nothing more to decide: the run ends here.
  virtual bool finished() const { return false; }

  int workers() const { return setup_.workers; }
  int live() const { return live_; }
  bool alive(int worker) const { return peers_[worker].alive; }
  int64_t version() const { return version_; }

 protected:
  // A plan out of the gradients held; newcomers are answered already.
  virtual std::optional<Plan> decide(double now) = 0;
  virtual void worker_changed(int /*worker*/) {}
  virtual void gradient_came(const Gradient&) {}
  virtual void idle_came(int /*worker*/) {}
  // A worker that waits without a gradient at the servers: may it go on now?
  virtual bool may_answer(int /*worker*/) const { return true; }

  const std::deque<Gradient>& held() const { return held_; }  // in the order of arrival
  bool waiting(int worker) const { return peers_[worker].waiting; }
  int lag(const Gradient& g) const { return static_cast<int>(version_ - g.version); }
  PlanMember member(const Gradient& g, double weight, Use use) const;
  int held_of(int worker) const { return peers_[worker].held; }
  const SyncSetup& setup() const { return setup_; }

 private:
  struct Peer {
    bool alive = false, waiting = false;
    int held = 0;  // gradients of it in held_
  };
  void note_idle(int worker);

  SyncSetup setup_;
  std::vector<Peer> peers_;
  int live_ = 0;
  std::set<int> idle_;  // workers that wait and have nothing at the servers
  std::deque<Gradient> held_;
  int64_t version_ = 0;
};

// The model that sync_param names, set up. Throws Error at its place in the file.
std::unique_ptr<SyncModel> make_sync_model(const Params& sync_param, const SyncSetup& setup);

struct SyncType {
  std::string name;  // "k_sync"
  std::string help;  // one line
  std::unique_ptr<SyncModel> (*make)() = nullptr;
};
using SyncRegistry = Registry<SyncType>;

template <class Class>
bool register_sync() {
  SyncType type = Class::describe_type();
  type.make = []() -> std::unique_ptr<SyncModel> { return std::make_unique<Class>(); };
  const std::string name = type.name;
  return SyncRegistry::instance().add(name, std::move(type));
}

#define KINET_REGISTER_SYNC(Class) \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_sync<Class>()

}  // namespace kinet
