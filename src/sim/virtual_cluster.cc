#include "src/sim/virtual_cluster.h"

#include "src/sim/virtual_run.h"

namespace kinet {

VirtualResult run_virtual(Problem& problem, const VirtualSpec& spec, SolverObserver* observer) {
  VirtualRun run(problem, spec, observer);
  return run.run();
}

}  // namespace kinet
