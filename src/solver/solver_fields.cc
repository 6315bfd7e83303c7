// The fields of solver.prototxt: Caffe's, and kinet's own at the end.
#include "comm/comm_fields.h"
#include "src/optim/lr_policy.h"
#include "src/solver/solver.h"
#include "src/sync/lr_search.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

std::vector<EnumValue> numbered(const std::vector<std::string>& names) {
  std::vector<EnumValue> values;
  for (const std::string& name : names) values.push_back({name, static_cast<int>(values.size())});
  return values;
}

const MessageType& early_stop_fields() {
  static const MessageType type{
      "early_stop_param",
      "End the run when an output of the first test net stops improving.",
      {string_field("metric", "", "name of the output; default: the first one"),
       uint_field("patience", "5", "tests in a row without improvement that end the run"),
       float_field("min_delta", "0", "a smaller change is no improvement"),
       enum_field("mode", numbered({"AUTO", "MAX", "MIN"}), "AUTO",
                  "whether more or less is better; AUTO: less for losses, more for the rest")}};
  return type;
}

std::vector<Field> net_choice() {
  return {path_field("net", "net file, for training and tests"),
          message_field("net_param", net_fields(), "the same, written here"),
          path_field("train_net", "net file for training only"),
          message_field("train_net_param", net_fields(), "the same, written here"),
          repeated(path_field("test_net", "net file for a test net")),
          repeated(message_field("test_net_param", net_fields(), "the same, written here")),
          message_field("train_state", net_state_fields(), "level and stages of the train net"),
          repeated(message_field("test_state", net_state_fields(),
                                 "level and stages of each test net"))};
}

std::vector<Field> test_and_display() {
  return {repeated(uint_field("test_iter", "",
                              "batches of a test, one for each test net; absent: every item of the "
                              "set exactly once")),
          uint_field("test_interval", "0", "iterations between tests; 0: none"),
          bool_field("test_initialization", "true", "test before the first iteration"),
          no_effect(bool_field("test_compute_loss", "false", "the loss is always computed")),
          uint_field("display", "0", "iterations between progress lines; 0: none"),
          uint_field("average_loss", "1", "iterations over which the displayed loss is averaged")};
}

std::vector<Field> schedule() {
  return {uint_field("max_iter", "", "iterations of the run"),
          uint_field("iter_size", "1", "batches whose gradients are averaged for one update"),
          float_field("base_lr", "", "learning rate to start from"),
          enum_field("lr_policy", numbered(lr_policy_names()), "fixed",
                     "how the rate changes; formulas in src/optim/lr_policy.h"),
          float_field("gamma", "", "factor of policies step, exp, inv, multistep, sigmoid"),
          float_field("power", "", "exponent of policies inv and poly"),
          int_field("stepsize", "", "iterations between steps; centre of sigmoid"),
          repeated(uint_field("stepvalue", "", "iterations at which multistep steps, ascending"))};
}

std::vector<Field> rule() {
  return {string_field("type", "SGD", "update rule: SGD, Nesterov, AdaGrad, RMSProp, ..."),
          float_field("momentum", "0", "mu; beta1 of Adam and AdamW; decay of AdaDelta"),
          float_field("momentum2", "0.999", "beta2 of Adam and AdamW"),
          float_field("rms_decay", "0.99", "decay of RMSProp"),
          float_field("delta", "1e-8", "keeps divisors of adaptive rules from zero"),
          float_field("weight_decay", "0", "lambda, times each parameter's decay_mult"),
          enum_field("regularization_type", {{"L2", 0}, {"L1", 1}}, "L2", "kind of weight decay"),
          float_field("clip_gradients", "-1",
                      "largest norm of the averaged gradient; longer ones are scaled down; "
                      "negative: no limit")};
}

std::vector<Field> snapshots() {
  return {uint_field("snapshot", "0", "iterations between snapshots; 0: none but the last"),
          string_field("snapshot_prefix", "",
                       "begin of snapshot paths; relative ones lie in the run directory, if there "
                       "is one; default: the solver file's name without its ending"),
          no_effect(bool_field("snapshot_diff", "false", "gradients are not saved")),
          enum_field("snapshot_format", {{"HDF5", 0}, {"BINARYPROTO", 1}}, "BINARYPROTO",
                     "only BINARYPROTO in this version"),
          bool_field("snapshot_after_train", "true", "snapshot at the end of the run"),
          repeated(path_field("weights",
                              "models to start from, copied by layer name; the flag --weights "
                              "wins"))};
}

std::vector<Field> machine() {
  return {enum_field("solver_mode", {{"CPU", 0}, {"GPU", 1}}, "CPU",
                     "what the nets run on; the flag --gpu wins"),
          int_field("device_id", "0", "which GPU, with solver_mode: GPU"),
          wide(int_field("random_seed", "-1",
                         "seed of the run; negative: chosen by the clock, printed")),
          no_effect(bool_field("debug_info", "false", "Caffe prints means of every blob")),
          no_effect(bool_field("layer_wise_reduce", "true", "overlap of reduction and backward"))};
}

std::vector<Field> own_fields() {
  return {float_field("max_epochs", "",
                      "end after so many passes over the training set; with max_iter the earlier "
                      "of both"),
          uint_field("warmup_iter", "0", "iterations of linear warm-up, for any lr_policy"),
          float_field("warmup_start_lr", "",
                      "rate that warm-up starts from; default: base_lr / (warmup_iter + 1)"),
          message_field("early_stop_param", early_stop_fields(), "early stop"),
          message_field("lr_search_param", lr_search_fields(), "own learning rate of each worker"),
          message_field("comm_param", comm_fields(), "how the workers of a run talk"),
          message_field("sync_param", sync_fields(), "whom the workers of a run wait for"),
          enum_field("on_snapshot_error", {{"CONTINUE", 0}, {"STOP", 1}}, "CONTINUE",
                     "what a snapshot that cannot be written does to the run")};
}

}  // namespace

const MessageType& SolverConfig::fields() {
  static const MessageType type = [] {
    MessageType t{"solver", "A training run: nets, update rule, schedule, tests, snapshots.", {}};
    for (const auto& group : {net_choice(), test_and_display(), schedule(), rule(), snapshots(),
                              machine(), own_fields()}) {
      t.fields.insert(t.fields.end(), group.begin(), group.end());
    }
    return t;
  }();
  return type;
}

}  // namespace kinet
