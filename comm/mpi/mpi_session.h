// MPI of this process: started once, ended at the end of the process.
//
// Threads: the communicator lets two threads take turns under one lock (whoever waits, polls), so
//   MPI_THREAD_SERIALIZED is asked for; FUNNELED would allow the first thread alone.
// End: MPI_Finalize waits for all ranks. After a loss or an error it is left out: mpirun then sees
// a
//   process that ended without it, and ends the others, as survives_peer_loss = false says.
#pragma once

#include <string>

namespace kinet {

class MpiSession {
 public:
  static MpiSession& get();  // starts MPI; throws Error

  int rank() const { return rank_; }
  int size() const { return size_; }
  void note_loss() { orderly_ = false; }

  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  MpiSession();
  ~MpiSession();

  int rank_ = 0, size_ = 1;
  bool ours_ = false;  // started here, so ended here
  bool orderly_ = true;
};

std::string mpi_name();                // "Open MPI 4.1.4"
std::string mpi_error_text(int code);  // of a call's return value

// Throws a run-time Error when an MPI call of the set-up failed.
void check_mpi(int code, const char* call);

}  // namespace kinet
