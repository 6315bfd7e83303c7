// Asynchronous elastic averaging (You, Buluc and Demmel, SC17; Zhang, Choromanska and LeCun, NIPS
// 2015): workers meet the center one at a time, as they come. Equations in src/sync/elastic.h.
//
//   async_easgd     x_i <- x_i - eta g_i - a (x_i - W),   W <- W + a (x_i - W)
//   async_measgd    V_i <- mu V_i + eta g_i,   x_i <- x_i - V_i - a (x_i - W)    V_i the worker's
//   own hogwild_easgd   as async_easgd, without the center's lock
// A push of N workers is 1/N of an iteration for each of its steps, so that an iteration is as many
// samples as in bsp. `easgd_momentum: true` gives the other two momentum as well.
#include "src/sync/elastic.h"
#include "src/sync/models/each_push.h"

namespace kinet {
namespace {

class AsyncElastic : public EachPush {
 public:
  void set_up(const Params& params, const SyncSetup& setup) override {
    EachPush::set_up(params, setup);
    options_ = read_elastic(params);
    adapt(options_);
  }
  std::string describe() const override { return options_.describe(); }
  int64_t local_steps() const override { return options_.period; }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<ElasticCenter>(options_);
  }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return std::make_unique<ElasticWorker>(options_);
  }

 protected:
  virtual void adapt(ElasticOptions& /*options*/) const {}

 private:
  ElasticOptions options_;
};

class AsyncEasgd : public AsyncElastic {
 public:
  static SyncType describe_type() {
    return {"async_easgd", "elastic averaging with a center, one worker at a time as they come"};
  }
};
KINET_REGISTER_SYNC(AsyncEasgd);

class AsyncMeasgd : public AsyncElastic {
 public:
  static SyncType describe_type() {
    return {"async_measgd", "async_easgd, the workers' steps with the solver's momentum"};
  }

 protected:
  void adapt(ElasticOptions& options) const override { options.momentum = true; }
};
KINET_REGISTER_SYNC(AsyncMeasgd);

class HogwildEasgd : public AsyncElastic {
 public:
  static SyncType describe_type() {
    return {"hogwild_easgd", "async_easgd, but an exchange misses one that is going on"};
  }

 protected:
  void adapt(ElasticOptions& options) const override { options.unlocked = true; }
};
KINET_REGISTER_SYNC(HogwildEasgd);

}  // namespace
}  // namespace kinet
