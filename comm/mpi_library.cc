#include "comm/mpi_library.h"

#include <array>
#include <cstdlib>

#include "src/base/check.h"
#include "src/base/shared_library.h"

namespace kinet {
namespace {

constexpr char kFileName[] = "libkinet_mpi.so";

}  // namespace

// Open MPI's own plug-ins look for its symbols: hence global.
const MpiLibrary* find_mpi_library(std::string* why) {
  using Door = const MpiLibrary* (*)();
  static std::string reason;
  static const MpiLibrary* const opened = []() -> const MpiLibrary* {
    const auto door =
        reinterpret_cast<Door>(open_own_library(kFileName, kMpiLibrarySymbol, &reason, true));
    if (door == nullptr) return nullptr;
    const MpiLibrary* library = door();
    if (library->version == kMpiLibraryVersion) return library;
    reason = std::string(kFileName) + " is of another build of kinet";
    return nullptr;
  }();
  *why = reason;
  return opened;
}

const MpiLibrary& mpi_library() {
  std::string why;
  const MpiLibrary* library = find_mpi_library(&why);
  KINET_CHECK(library != nullptr,
              "this build has no MPI: {}\nhint: install libopenmpi-dev and openmpi-bin, then "
              "configure and build kinet again",
              why);
  return *library;
}

bool started_by_mpi() {
  static constexpr std::array<const char*, 3> kSigns{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                     "PMIX_RANK"};
  for (const char* sign : kSigns) {
    if (std::getenv(sign) != nullptr) return true;
  }
  return false;
}

MpiPlace mpi_place() { return mpi_library().place(); }

std::string mpi_broadcast_string(const std::string& text, int root) {
  std::string out = text;
  mpi_library().broadcast(&out, root);
  return out;
}

}  // namespace kinet
