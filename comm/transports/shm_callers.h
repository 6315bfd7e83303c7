// Who dials this rank: the listening socket of transport shm and the callers that no link has taken
// yet. A caller may come before this rank's own connect(): it is kept, for as long as a link may
// take to come up. Whoever greets wrongly is hung up on, and nothing else happens.
// Thread safety: none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transports/shm_link.h"

namespace kinet {

class ShmCallers {
 public:
  ShmCallers(const ShmSelf& self, double timeout);  // throws Error
  const std::string& name() const { return name_; }
  int listener() const { return listener_.get(); }

  void accept(double now);  // the listener is readable
  void read();              // some caller is readable
  // Hands callers over to the links (by rank) that wait for them, forgets those that are too late.
  void match(std::span<const std::unique_ptr<ShmLink>> links, double now);

 private:
  struct Caller {
    ShmFd socket;
    double deadline = 0;
    bool greeted = false, gone = false;
    ShmReceived hello{};
  };

  const ShmSelf& self_;
  double timeout_;
  std::string name_;
  ShmFd listener_;
  std::vector<Caller> callers_;
};

}  // namespace kinet
