#include "src/sync/dana_fields.h"

#include <fmt/core.h>

#include <cmath>

#include "src/base/check.h"

namespace kinet {

std::vector<Field> dana_fields() {
  return {bool_field("momentum_correction", "false",
                     "nag_asgd, multi_asgd, lwp, dc_asgd, staleness_aware, gap_aware, dana_zero, "
                     "dana_slim, dana_dc: where the learning rate changes, the momentum changes in "
                     "proportion (as where the rate is outside of it)"),
          uint_field("lwp_lag", "0", "lwp: updates that weights are predicted ahead; 0: N"),
          bool_field("lwp_damped", "false",
                     "lwp: the velocity is predicted to decay by the momentum at every update"),
          float_field("dc_lambda", "-1",
                      "dc_asgd, dana_dc: strength of the compensation; -1: 0.04 in dc_asgd, 2 in "
                      "dana_dc and where dc_adaptive"),
          bool_field("dc_adaptive", "false",
                     "dc_asgd: lambda is divided by the root of the mean square of the gradient"),
          float_field("dc_decay", "0.95", "dc_asgd, dc_adaptive: decay of that mean square"),
          float_field("gap_max_rate", "0",
                      "gap_aware: largest learning rate of the schedule; 0: the largest so far"),
          float_field("yf_beta", "0.999", "yellowfin: decay of its running means"),
          uint_field("yf_window", "20",
                     "yellowfin: gradients among which the extremes of the curvature are sought")};
}

double delay_lambda(const Params& sync_param, double standard) {
  const double lambda = sync_param.get_double("dc_lambda");
  if (lambda == -1) return standard;
  if (!(lambda >= 0) || !std::isfinite(lambda)) {
    fail_at(sync_param.where("dc_lambda"),
            fmt::format("dc_lambda must not be negative (-1: the model's own), got {:g}", lambda));
  }
  return lambda;
}

}  // namespace kinet
