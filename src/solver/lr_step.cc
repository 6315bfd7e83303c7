// The learning-rate search within an iteration, and its place in snapshots.
#include <bit>
#include <cmath>

#include "src/base/check.h"
#include "src/solver/lr_probe.h"
#include "src/solver/solver_impl.h"

namespace kinet {
namespace {

LrSearchState state_of(const LrSearchRecord& r) {
  return {r.log_multiplier, r.step, r.next, r.searches, r.passes, r.log_ceiling};
}

}  // namespace

void Solver::Impl::build_search() {
  Diagnostics checked;  // SolverConfig found nothing wrong
  const LrSearchOptions search = read_lr_search(config->params(), checked);
  if (search.method == "none") return;
  lr_search = std::make_unique<LrSearch>(search);
  lr_states.assign(static_cast<size_t>(options.workers), lr_search->state());
}

void Solver::Impl::search_rate(const std::vector<int64_t>& positions) {
  const double begin = now();
  if (lr_search->due()) {
    NetProbe::Batch batch;
    batch.loss = loss;
    batch.positions = positions;
    batch.scale = 1 / static_cast<float>(settings.iter_size);
    for (int64_t micro = 0; micro < settings.iter_size; ++micro) {
      batch.passes.push_back(context(Phase::kTrain, pass_number(micro)));
    }
    NetProbe probe(*train, segments, host_history(), std::move(batch));
    lr_search->search(probe);
    search_passes = probe.passes();
  }
  lr_search->advance();
  lr_states[options.worker] = lr_search->state();
  multiplier = lr_search->multiplier();
  search_seconds += now() - begin;
}

double Solver::Impl::scheduled_rate() const {
  return learning_rate(policy, iteration) * multiplier;
}

std::vector<uint64_t> Solver::Impl::search_words() const {
  if (lr_search == nullptr) return {};
  const LrSearchState& s = lr_search->state();
  return {std::bit_cast<uint64_t>(s.log_multiplier),
          static_cast<uint64_t>(s.step),
          static_cast<uint64_t>(s.next),
          static_cast<uint64_t>(s.searches),
          static_cast<uint64_t>(s.passes),
          std::bit_cast<uint64_t>(s.log_ceiling)};
}

void Solver::Impl::take_search_words(const std::vector<std::vector<uint64_t>>& by_rank) {
  if (lr_search == nullptr) return;
  lr_states.clear();
  for (const std::vector<uint64_t>& words : by_rank) {
    lr_states.push_back({std::bit_cast<double>(words[0]), static_cast<int64_t>(words[1]),
                         static_cast<int64_t>(words[2]), static_cast<int64_t>(words[3]),
                         static_cast<int64_t>(words[4]), std::bit_cast<double>(words[5])});
  }
}

std::vector<LrSearchRecord> Solver::Impl::search_records() const {
  std::vector<LrSearchRecord> records;
  if (lr_search == nullptr) return records;
  for (const LrSearchState& s : lr_states) {
    records.push_back({s.log_multiplier, s.step, s.next, s.searches, s.passes, s.log_ceiling});
  }
  return records;
}

// A worker that the snapshot does not know begins with the mean of those that it knows.
void Solver::Impl::resume_search(const Snapshot& snapshot) {
  std::vector<LrSearchRecord> records;
  if (snapshot.extras) records = snapshot.extras->lr_search;
  if (lr_search == nullptr) {
    if (!records.empty()) {
      observer.on_note(snapshot.path +
                       ": its learning-rate search is not gone on with; the "
                       "solver file has none");
    }
    return;
  }
  if (records.empty()) {
    observer.on_note(snapshot.path + ": no learning-rate search in it; one begins now");
    return;
  }
  if (records.size() != lr_states.size()) {
    observer.on_note(fmt::format("{}: learning rates of {} workers; {} train now", snapshot.path,
                                 records.size(), lr_states.size()));
  }
  LrSearchState newcomer = state_of(records[0]);
  newcomer.log_multiplier = newcomer.log_ceiling = 0;
  for (const LrSearchRecord& r : records) {
    newcomer.log_multiplier += r.log_multiplier;
    newcomer.log_ceiling += r.log_ceiling;
  }
  newcomer.log_multiplier /= static_cast<double>(records.size());
  newcomer.log_ceiling /= static_cast<double>(records.size());
  for (size_t i = 0; i < lr_states.size(); ++i) {
    lr_states[i] = i < records.size() ? state_of(records[i]) : newcomer;
  }
  lr_search->restore(lr_states[options.worker]);
  multiplier = lr_search->multiplier();
}

void Solver::Impl::tell_search() {
  if (lr_search == nullptr || step_seconds <= 0) return;
  const LrSearchState& s = lr_search->state();
  const double share = search_seconds / step_seconds;
  const std::string text = fmt::format(
      "learning-rate search: {} searches, {:.1f} % of the time of the iterations; rate multiplier "
      "{:.4g} at the end",
      s.searches, 100 * share, multiplier);
  observer.on_note(text);
}

}  // namespace kinet
