// Joins ranks that are threads of one process: where the endpoints of the inproc transport meet.
// Thread safety: all of it.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "comm/transport.h"

namespace kinet {

class InprocEndpoint;

class InprocHub {
 public:
  // The endpoint of a rank; a successor takes the place of a rank that is gone.
  void enter(Rank rank, const std::shared_ptr<InprocEndpoint>& endpoint);
  std::shared_ptr<InprocEndpoint> find(Rank rank);  // null: not there

 private:
  std::mutex mutex_;
  std::map<Rank, std::weak_ptr<InprocEndpoint>> endpoints_;
};

}  // namespace kinet
