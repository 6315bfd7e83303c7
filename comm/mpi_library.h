// The door to libkinet_mpi.so, the only part of kinet that is linked to MPI. It is opened when
// transport mpi is asked for, or when a run that mpirun started needs it.
// Thread safety: none; set-up, on the main thread (MPI wants to be started and ended there).
#pragma once

#include <memory>
#include <string>

#include "comm/transport.h"

namespace kinet {

struct MpiPlace {
  int rank = 0, size = 1;  // in MPI_COMM_WORLD
};

// The library's functions; they throw Error.
struct MpiLibrary {
  int version = 0;        // kMpiLibraryVersion of the library's build
  std::string (*name)();  // "Open MPI 4.1.4"; starts nothing
  MpiPlace (*place)();    // starts MPI when it is not started
  void (*broadcast)(std::string* text, int root);
  std::unique_ptr<Transport> (*make)(const TransportConfig& config);
};

inline constexpr int kMpiLibraryVersion = 1;  // goes up with every change of this header
inline constexpr char kMpiLibrarySymbol[] = "kinet_mpi_library";

// Null with the reason in `why` when this build has no MPI.
const MpiLibrary* find_mpi_library(std::string* why);
// The same; throws Error with the remedy.
const MpiLibrary& mpi_library();

// Whether mpirun (or another launcher that speaks PMI) started this process.
bool started_by_mpi();

// This process' place among those that mpirun started. Starts MPI.
MpiPlace mpi_place();
// The text of rank `root`, on every rank. All ranks have to call it; it waits for them. For set-up
// data such as the run's token and where its rendezvous is.
std::string mpi_broadcast_string(const std::string& text, int root = 0);

}  // namespace kinet
