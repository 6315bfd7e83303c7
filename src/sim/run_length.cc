#include "src/sim/run_length.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/check.h"

namespace kinet {

double samples_an_iteration(const Params& solver, const Problem& problem, int workers) {
  const double push = solver.message("sync_param").get_double("push_weight");
  const double pushes = push > 0 ? 1 / push : static_cast<double>(workers);
  return pushes * static_cast<double>(problem.batch_size());
}

int64_t run_length(const Params& solver, const Problem& problem, int workers) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t end = solver.has("max_iter") ? solver.get_int("max_iter") : kNone;
  if (solver.has("max_epochs")) {
    if (problem.items() <= 0) {
      fail_at(solver.where("max_epochs"),
              "max_epochs needs data: this objective has no epochs\nhint: use max_iter");
    }
    const double samples = solver.get_double("max_epochs") * static_cast<double>(problem.items());
    const double iterations = std::ceil(samples / samples_an_iteration(solver, problem, workers));
    end = std::min(end, static_cast<int64_t>(std::min(iterations, 1e15)));
  }
  if (end == kNone) fail_at(solver.where(), "there is no end: give max_iter or max_epochs");
  return end;
}

}  // namespace kinet
