#include "comm/mpi/mpi_session.h"

#include <mpi.h>

#include <array>

#include "src/base/check.h"

namespace kinet {

std::string mpi_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), length);
  return all.substr(0, all.find_first_of(",\n"));  // the rest says who built it
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "unknown MPI error";
  return {text.data(), static_cast<size_t>(length)};
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) fail_runtime("{}: {}", call, mpi_error_text(code));
}

MpiSession& MpiSession::get() {
  static MpiSession session;
  return session;
}

MpiSession::MpiSession() {
  int started = 0, level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Initialized(&started), "MPI_Initialized");
  if (started != 0) {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    ours_ = true;
  }
  KINET_CHECK(level >= MPI_THREAD_SERIALIZED,
              "{} lets one thread alone call it (level {}); kinet needs MPI_THREAD_SERIALIZED\n"
              "hint: use an MPI built with threads, or --transport tcp",
              mpi_name(), level);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

MpiSession::~MpiSession() {
  int ended = 0;
  if (ours_ && orderly_ && MPI_Finalized(&ended) == MPI_SUCCESS && ended == 0) MPI_Finalize();
}

}  // namespace kinet
