#include "src/sync/local_fields.h"

namespace kinet {
namespace {

std::vector<Field> local_sgd_fields() {
  return {uint_field("local_steps", "8",
                     "local_sgd: steps between two averages (H); post_local_sgd: H once the rate "
                     "has dropped; ada_comm: the first H; qsr: the least H"),
          uint_field("local_steps_max", "0", "ada_comm, qsr: the largest H; 0: no limit"),
          float_field("qsr_alpha", "0",
                      "qsr: H = (qsr_alpha / rate)^2, at least local_steps; 0: that which makes H "
                      "local_steps at the largest rate so far")};
}

std::vector<Field> elastic_fields() {
  return {float_field("easgd_beta", "0.9",
                      "easgd family: the moving rate is easgd_beta / N of N workers"),
          float_field("easgd_rho", "0",
                      "easgd family: above 0, the moving rate is easgd_rho times the learning rate "
                      "instead"),
          uint_field("easgd_period", "1", "easgd family: steps between two exchanges"),
          bool_field("easgd_momentum", "false",
                     "easgd family: the workers' steps have the momentum of the solver file "
                     "(async_measgd: always)"),
          uint_field("easgd_level", "3",
                     "sync_easgd: 1 and 2: weights leave after their gradients; 3: before them, "
                     "hidden behind the computation (with easgd_period 1)")};
}

std::vector<Field> sapus_fields() {
  return {
      float_field("sapus_delta", "0.01",
                  "sapus: a worker pushes when its update is this part of the weights' norm, "
                  "times the rate over the largest so far"),
      float_field("sapus_coherence", "0.3",
                  "sapus: or when its update is no longer than this part of its path"),
      uint_field("sapus_most_steps", "64", "sapus: or after so many steps"),
      float_field("sapus_server_share", "0.2",
                  "sapus: part of a server's time that pushes may take; 0: no bound"),
      float_field("sapus_link_budget", "0",
                  "sapus: Gbit/s over the servers' links, both ways together; 0: no bound"),
      float_field("sapus_worker_link", "0",
                  "sapus: Gbit/s of a worker's link, for the time of an exchange; 0: it costs "
                  "what the servers need alone"),
      float_field("sapus_exchange_share", "0.2",
                  "sapus: part of a worker's time that exchanges may take; 0: no bound"),
      float_field("sapus_loss_scale", "0.25",
                  "sapus: a push's weight is exp((L - l) / (scale L)), l its loss, L the mean of "
                  "the others'; 0: all weigh the same"),
      float_field("sapus_weight_min", "0.2", "sapus: least of these weights"),
      float_field("sapus_weight_max", "1.5", "sapus: largest of these weights"),
      float_field("sapus_staleness", "0.5",
                  "sapus: a push that is t rounds of all workers late weighs 1 / (1 + t)^this")};
}

}  // namespace

std::vector<Field> local_fields() {
  std::vector<Field> fields = local_sgd_fields();
  for (const auto& more : {elastic_fields(), sapus_fields()}) {
    fields.insert(fields.end(), more.begin(), more.end());
  }
  return fields;
}

}  // namespace kinet
