#include "src/solver/global_batch.h"

#include <fmt/format.h>

#include <charconv>

namespace kinet {
namespace {

// Divides the batch_size fields of a layer; returns how many there were.
int divide(ParamNode& node, int workers) {
  int count = 0;
  for (ParamNode& child : node.children) {
    if (child.is_message()) {
      count += divide(child, workers);
      continue;
    }
    if (child.name != "batch_size") continue;
    int64_t batch = 0;
    std::from_chars(child.text.data(), child.text.data() + child.text.size(), batch);
    if (batch % workers != 0 || batch < workers) {
      fail_at(child.value_where,
              fmt::format("fixed_global_batch: batch_size {} cannot be divided among {} workers\n"
                          "hint: a multiple of {}, or another number of workers",
                          batch, workers, workers));
    }
    child.text = std::to_string(batch / workers);
    ++count;
  }
  return count;
}

}  // namespace

ParamNode with_worker_batch(const ParamNode& net, const NetState& state, int workers) {
  ParamNode out = net;
  const NetState merged = merge_state(net, state);
  int count = 0;
  for (ParamNode& layer : out.children) {
    if (layer.name == "layer" && layer_in_state(layer, merged)) count += divide(layer, workers);
  }
  if (count == 0) {
    fail_at(net.where,
            "fixed_global_batch: no data layer of the train net has a batch_size\nhint: leave "
            "sync_param.fixed_global_batch away");
  }
  return out;
}

std::string iteration_rule(const std::string& model, const std::string& absorb, int servers,
                           int workers) {
  const std::string rate = "; the rate is that of the file";
  if (servers == 0 || model == "bsp") {
    return fmt::format("an iteration applies the mean of {} gradients, one of each worker",
                       workers) +
           rate;
  }
  const bool each =
      model == "asp" || model == "ssp" || (model == "momentum_k_sync" && absorb == "LOOKAHEAD");
  if (each) {
    return fmt::format("an iteration is {} gradients, each of weight 1/{}", workers, workers) +
           rate;
  }
  if (model == "local_sgd") {
    return "an iteration is one step of every worker; weights are averaged now and then" + rate;
  }
  return "an iteration is a round: the mean of the gradients that it waits for" + rate;
}

}  // namespace kinet
