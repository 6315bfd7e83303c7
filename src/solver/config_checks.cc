#include "src/solver/config_checks.h"

#include <fmt/core.h>

#include "src/base/text.h"
#include "src/optim/lr_policy.h"
#include "src/optim/optimizer.h"
#include "src/sync/compress.h"
#include "src/sync/lr_search.h"
#include "src/sync/sync.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

class Checks {
 public:
  Checks(const Params& solver, Diagnostics& diagnostics)
      : solver_(solver), diagnostics_(diagnostics) {}

  void error(const std::string& field, const std::string& message) {
    diagnostics_.error(solver_.where(field), message);
  }

  void one_train_net() {
    std::vector<std::string> given;
    for (const char* field : {"net", "net_param", "train_net", "train_net_param"}) {
      if (solver_.has(field)) given.emplace_back(field);
    }
    if (given.empty()) {
      diagnostics_.error(solver_.where(),
                         "the solver file names no net; give it one: net: \"net.prototxt\"");
    } else if (given.size() > 1) {
      error(given[1], "the train net is given more than once: " + join(given, ", ") +
                          "\nhint: keep one of them");
    }
  }

  void rule() {
    const std::string type = solver_.get_string("type");
    const OptimizerType* entry = OptimizerRegistry::instance().find(type);
    if (entry == nullptr) {
      const auto names = OptimizerRegistry::instance().names();
      error("type", fmt::format("unknown solver type '{}'{}; known: {}", type,
                                did_you_mean(type, names), join(names, ", ")));
    } else if (!entry->uses_momentum && solver_.get_double("momentum") != 0) {
      error("momentum", fmt::format("{} has no momentum; remove the field", type));
    }
    for (const char* field : {"momentum", "momentum2", "rms_decay"}) {
      const double value = solver_.get_double(field);
      if (!(value >= 0 && value < 1)) {
        error(field, fmt::format("{} must be at least 0 and below 1, got {:g}", field, value));
      }
    }
    for (const char* field : {"delta", "weight_decay"}) {
      const double value = solver_.get_double(field);
      if (!(value >= 0)) error(field, fmt::format("{} must not be negative", field));
    }
  }

  void schedule() {
    if (!solver_.has("base_lr")) diagnostics_.error(solver_.where(), "'base_lr' is missing");
    if (!solver_.has("max_iter") && !solver_.has("max_epochs")) {
      diagnostics_.error(solver_.where(), "'max_iter' is missing (or 'max_epochs')");
    }
    if (solver_.has("max_epochs") && !(solver_.get_double("max_epochs") > 0)) {
      error("max_epochs", "max_epochs must be positive");
    }
    for (const char* field : {"iter_size", "average_loss"}) {
      if (solver_.get_int(field) < 1) error(field, fmt::format("{} must be at least 1", field));
    }
    read_lr_policy(solver_, diagnostics_);
    read_lr_search(solver_, diagnostics_);
  }

  void tests() {
    for (const int64_t batches : solver_.get_ints("test_iter")) {
      if (batches > 0) continue;
      error("test_iter",
            "test_iter must be at least 1\nhint: without test_iter a test takes every item of the "
            "set once; without test_interval there are no tests");
    }
    const Params stop = solver_.message("early_stop_param");
    if (!stop.present()) return;
    if (solver_.get_int("test_interval") == 0) {
      error("early_stop_param", "early stop needs tests: set test_interval");
    }
    if (!(stop.get_double("min_delta") >= 0)) {
      diagnostics_.error(stop.where("min_delta"), "min_delta must not be negative");
    }
  }

  // The model itself knows best. How many workers there will be is not known here.
  void synchronisation() {
    const Params sync = solver_.message("sync_param");
    if (!sync.present() || !diagnostics_.errors().empty()) return;
    constexpr int kManyWorkers = 4096;
    try {
      server_count(sync);
      make_sync_model(sync,
                      {kManyWorkers, solver_.get_double("momentum"), solver_.get_string("type")});
      read_compress(solver_, kManyWorkers);
    } catch (const Error& wrong) {
      diagnostics_.error({}, wrong.what());
    }
  }

  void this_version() {
    if (solver_.get_int("device_id") < 0) {
      error("device_id",
            "device_id is the number of a GPU, from 0\nhint: 'kinet devices' lists them");
    }
    if (solver_.get_enum("snapshot_format") == "HDF5") {
      error("snapshot_format",
            "HDF5 snapshots are not supported\nhint: use snapshot_format: BINARYPROTO");
    }
  }

 private:
  const Params& solver_;
  Diagnostics& diagnostics_;
};

}  // namespace

void check_solver(const Params& solver, Diagnostics& diagnostics) {
  Checks checks(solver, diagnostics);
  checks.one_train_net();
  checks.rule();
  checks.schedule();
  checks.tests();
  checks.this_version();
  checks.synchronisation();
}

}  // namespace kinet
