// The table of functions through which libkinet.so reaches this library.
#include <mpi.h>

#include "comm/mpi/mpi_session.h"
#include "comm/mpi/mpi_transport.h"
#include "comm/mpi_library.h"
#include "src/base/check.h"

namespace kinet {
namespace {

MpiPlace place() {
  const MpiSession& session = MpiSession::get();
  return {session.rank(), session.size()};
}

void broadcast(std::string* text, int root) {
  KINET_CHECK(root >= 0 && root < MpiSession::get().size(), "there is no rank {} in MPI", root);
  uint64_t bytes = text->size();
  check_mpi(MPI_Bcast(&bytes, 1, MPI_UINT64_T, root, MPI_COMM_WORLD), "MPI_Bcast");
  text->resize(bytes);
  check_mpi(MPI_Bcast(text->data(), static_cast<int>(bytes), MPI_BYTE, root, MPI_COMM_WORLD),
            "MPI_Bcast");
}

}  // namespace
}  // namespace kinet

extern "C" __attribute__((visibility("default"))) const kinet::MpiLibrary* kinet_mpi_library() {
  static const kinet::MpiLibrary library{kinet::kMpiLibraryVersion, kinet::mpi_name, kinet::place,
                                         kinet::broadcast, kinet::make_mpi_transport};
  return &library;
}
