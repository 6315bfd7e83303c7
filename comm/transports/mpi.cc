// mpi: the face of the transport over MPI. What it does is in comm/mpi, in a library of its own
// that is opened here; without it, or without mpirun, this says so.
#include "comm/mpi_library.h"
#include "src/base/check.h"

namespace kinet {
namespace {

TransportProbe probe(const Params&) {
  std::string why;
  const MpiLibrary* library = find_mpi_library(&why);
  if (library == nullptr) {
    return {false,
            "this build has no MPI",
            {why},
            "install libopenmpi-dev and openmpi-bin, then configure and build kinet again"};
  }
  if (!started_by_mpi()) {
    return {false,
            library->name() + " is there, but mpirun did not start this process",
            {},
            "mpirun -n 2 kinet train ... --transport mpi"};
  }
  return {true, "works: " + library->name() + ", started by mpirun", {}, ""};
}

std::unique_ptr<Transport> make(const TransportConfig& config) {
  KINET_CHECK(started_by_mpi(),
              "transport mpi joins processes that mpirun started, and this one it did not "
              "start\nhint: mpirun -n {} kinet train ... --transport mpi",
              config.size);
  return mpi_library().make(config);
}

// Last choice across machines: one dead process ends all.
KINET_REGISTER_TRANSPORT((TransportType{"mpi", "processes started by mpirun, over its MPI",
                                        Reach::kNetwork, 5, nullptr, &probe, &make}));

}  // namespace
}  // namespace kinet
