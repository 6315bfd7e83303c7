#include "src/sync/sync_fields.h"

#include <fmt/core.h>

#include "src/base/text.h"
#include "src/sync/compress.h"
#include "src/sync/dana_fields.h"
#include "src/sync/k_controller.h"
#include "src/sync/local_fields.h"
#include "src/sync/sync.h"

namespace kinet {
namespace {

MessageType make_sync_fields() {
  MessageType type{
      "sync_param",
      "Whom the workers of a run wait for. The fields beside `model` and `servers` are those of "
      "the models named in their help.",
      {string_field("model", "bsp",
                    "synchronisation model (docs/synchronisation.md): " +
                        join(SyncRegistry::instance().names(), ", ")),
       int_field("servers", "-1",
                 "processes that hold the weights, a slice each; 0: none, the workers sum among "
                 "themselves (bsp only); -1: 0 for bsp, 1 for the others"),
       uint_field("k", "0",
                  "gradients that a round waits for; where k adapts: the first one. 0: half of "
                  "the workers in k_sync, 1 in ada_sync, all in momentum_k_sync"),
       enum_field("variant",
                  {{"K_SYNC", 0}, {"K_BATCH_SYNC", 1}, {"K_ASYNC", 2}, {"K_BATCH_ASYNC", 3}},
                  "K_SYNC", "k_sync: what counts, and what the others do meanwhile"),
       uint_field("backup", "1", "backup_workers: workers that no round waits for"),
       uint_field("bound", "3", "ssp: pushes that a worker may be ahead of the slowest"),
       float_field("push_weight", "0",
                   "asp, ssp and the models whose pushes are applied one by one: the part of an "
                   "iteration that a push is; 0: 1/N, so that N pushes are one; 1: each push is an "
                   "iteration at the full rate, as the papers of that family have it"),
       float_field("ada_interval", "60",
                   "ada_sync, ada_comm: seconds between two looks at the loss"),
       uint_field("max_bad", "10",
                  "non-finite gradients in a row, over all workers, that end the run; each is "
                  "dropped and counted"),
       bool_field("fixed_global_batch", "false",
                  "true: batch_size is that of all workers together, each takes batch_size / N; "
                  "false: that of each"),
       enum_field(
           "absorb",
           {{"LOOKAHEAD", 0}, {"ORDERED", 1}, {"MOMENTUM", 2}, {"STALENESS", 3}, {"DROP", 4}},
           "LOOKAHEAD", "momentum_k_sync: what becomes of late gradients"),
       enum_field(
           "late_weight", {{"WORTH", 0}, {"EQUAL", 1}}, "WORTH",
           "momentum_k_sync, absorb LOOKAHEAD: how much a gradient counts; WORTH: by how far "
           "the weights have moved since it was computed (k_gap_half), 1 on average"),
       uint_field("max_lag", "1000",
                  "momentum_k_sync: a gradient that is more rounds late is dropped")}};
  for (const Field& field : k_rule_fields()) {
    if (type.find(field.name) == nullptr) type.fields.push_back(field);
  }
  for (const Field& field : dana_fields()) type.fields.push_back(field);
  for (const Field& field : local_fields()) type.fields.push_back(field);
  for (const Field& field : compress_fields()) type.fields.push_back(field);
  return type;
}

}  // namespace

const MessageType& sync_fields() {
  static const MessageType type = make_sync_fields();
  return type;
}

int server_count(const Params& sync_param) {
  const int64_t servers = sync_param.get_int("servers");
  if (servers < -1 || servers > 1024) {
    fail_at(sync_param.where("servers"),
            fmt::format("servers must be -1, or 0 to 1024, got {}", servers));
  }
  if (servers >= 0) return static_cast<int>(servers);
  return sync_param.get_string("model") == "bsp" ? 0 : 1;
}

}  // namespace kinet
