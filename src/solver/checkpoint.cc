// Snapshots of a solver, going on from one, and starting from given weights.
//
// Invariant (the resume law): n iterations, a snapshot, a new process and m iterations give the
// same weights, bit for bit, as n + m iterations. All that an iteration depends on is its number,
// the seed, the weights, the history, the data position and the state of a learning-rate search,
// and a snapshot holds all of them.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/math/vec.h"
#include "src/solver/solver_impl.h"
#include "src/solver/starting_weights.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

// Where a source stands that gave its batches without a break. Three counts of an int each may
// give more than 64 bits hold.
int64_t position_after(int64_t iteration, int64_t batches_an_update, const BatchSource& source,
                       const std::string& state) {
  const int64_t batches = iteration * batches_an_update;
  KINET_CHECK(batches <= (int64_t{1} << 53) / source.batch_size(),
              "{}: {} iterations of {} batches of {} are more than a run can count: damaged, or "
              "iter_size or batch_size is too large",
              state, iteration, batches_an_update, source.batch_size());
  return batches * source.batch_size();
}

}  // namespace

// The folder is tried before anything is trained, with the longest name that a snapshot may get.
// Inside a run directory it is made.
void Solver::Impl::find_prefix() {
  const Params params = config->params();
  std::string stem = fs::path(config->path()).stem().string();
  if (stem.empty()) stem = "snapshot";
  fs::path path = params.has("snapshot_prefix") ? params.get_string("snapshot_prefix") : stem;
  const bool in_run_directory = path.is_relative() && !options.output_folder.empty();
  if (in_run_directory) path = fs::path(options.output_folder) / path;
  std::error_code error;
  if (!path.has_filename() || fs::is_directory(path, error)) path /= stem;
  prefix = path.string();
  if (settings.snapshot == 0 && !settings.snapshot_after_train) return;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  try {
    check_writable(folder, in_run_directory,
                   fmt::format("{}_iter_{}.solverstate", path.filename().string(),
                               std::numeric_limits<int32_t>::max()));
  } catch (const Error& e) {
    fail_at(params.where("snapshot_prefix"),
            fmt::format("snapshots cannot be written: {}", e.what()));
  }
}

void Solver::Impl::check_finite() {
  gather_state();
  std::string bad = first_non_finite_parameter(*train);
  const std::span<const float> numbers = whole_history();
  if (bad.empty() && !vec().all_finite(static_cast<int64_t>(numbers.size()), numbers.data())) {
    bad = "the optimizer's history";
  }
  if (bad.empty()) return;
  fail_runtime(
      "iteration {}: {} is not finite after the update; no snapshot is written\n  last snapshot: "
      "{}\nhint: lower base_lr (the rate is {:.6g})",
      iteration, bad, last_snapshot.empty() ? "none" : last_snapshot, rate);
}

std::string Solver::Impl::snapshot() {
  check_finite();
  snapshot_tried = iteration;
  Snapshot out;
  out.iteration = iteration;
  out.history = pack_history(*train, whole_history(), optimizer->histories());
  KinetExtras extras;
  extras.solver_type = type;
  extras.net_name = train->name();
  extras.seed = seed;
  extras.iter_size = settings.iter_size;
  if (side) seek_all(iteration);  // a server reads no data; this is where one worker would be
  for (const BatchSource* source : train->batch_sources()) {
    const std::string& layer = train->layer(layer_of_source(*train, source)).name();
    extras.positions.push_back({layer, source->position(), source->items(), source->batch_size()});
  }
  extras.tested_iteration = tested_iteration;
  extras.early_stop = early_stop->state();
  extras.recent_losses.assign(recent.begin(), recent.end());
  if (side) save_sync(extras.sync);
  extras.lr_search = search_records();
  out.extras = std::move(extras);
  last_snapshot = write_snapshot(prefix, *train, std::move(out));
  return last_snapshot;
}

void Solver::Impl::resume(const Snapshot& state) {
  if (state.extras && state.extras->solver_type != type) {
    fail(
        "{}: written by a solver of type {}, the solver file says {}\nhint: their histories mean "
        "different things; start afresh from the model with --weights",
        state.path, state.extras->solver_type, type);
  }
  restore_weights(read_model_of(state), *train);
  unpack_history(state, *train, type, optimizer->histories(), history);
  iteration = state.iteration;
  restore_positions(state);
  resume_search(state);
  if (state.extras) {
    tested_iteration = state.extras->tested_iteration;
    early_stop->restore(state.extras->early_stop);
    recent.assign(state.extras->recent_losses.begin(), state.extras->recent_losses.end());
    resumed_sync = state.extras->sync;
    if (!resumed_sync.model.empty() && options.servers == 0) {
      observer.on_note(
          fmt::format("{}: saved by {} with {} workers; their own momenta and the state "
                      "of the model do not go on",
                      state.path, resumed_sync.model, resumed_sync.workers.size()));
    }
  }
  resumed_from = last_snapshot = state.path;
  snapshot_tried = iteration;
  if (iteration >= end) {
    observer.on_note(fmt::format("{} is at iteration {}, the run ends at {}: nothing is left to do",
                                 state.path, iteration, end));
  }
}

void Solver::Impl::restore_positions(const Snapshot& state) {
  std::map<std::string, SourcePosition> saved;
  if (state.extras) {
    for (const SourcePosition& p : state.extras->positions) saved[p.layer] = p;
  } else {
    observer.on_note(state.path +
                     ": not written by kinet; data positions are computed from the iteration");
  }
  for (BatchSource* source : train->batch_sources()) {
    const std::string& layer = train->layer(layer_of_source(*train, source)).name();
    const auto found = saved.find(layer);
    if (found == saved.end()) {
      source->seek(position_after(iteration, batches_an_update(), *source, state.path));
      continue;
    }
    if (found->second.items != source->items()) {
      observer.on_note(
          fmt::format("layer '{}': the set has {} items now and had {}; reading goes "
                      "on from item {}",
                      layer, with_commas(source->items()), with_commas(found->second.items),
                      with_commas(found->second.position)));
    }
    source->seek(found->second.position);
  }
}

void Solver::Impl::load_weights() {
  weights = starting_weights(*config, options.weights);
  for (const std::string& file : weights) {
    observer.on_note(copy_weights(Model::read(file), *train).summary(file));
  }
}

}  // namespace kinet
