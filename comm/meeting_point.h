// Where ranks that mpirun or srun has started on one machine find rank 0: a folder of mode 0700
// that only this user can look into, with a file that holds the address of the rendezvous and the
// run token. It lives from the start of rank 0 until all ranks are there.
#pragma once

#include <optional>
#include <string>

#include "comm/sockets.h"

namespace kinet {

struct MeetingNote {
  HostPort address;
  std::string token;
};

// Of rank 0: writes the note, and takes it away at the end. What a run that was killed left behind
// is written over.
class MeetingPoint {
 public:
  MeetingPoint(std::string folder, const MeetingNote& note);  // throws Error
  ~MeetingPoint();
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

 private:
  std::string folder_;
};

// The note, if it is there. Throws Error when the folder is not this user's alone.
std::optional<MeetingNote> read_meeting_note(const std::string& folder);

// First line of a file that only its owner may read and write. Throws Error.
std::string read_token_file(const std::string& path);

}  // namespace kinet
