// The update rules on a device: the same equations as in src/optim, over arenas that lie there.
//
// Ownership: the arenas belong to the caller. Thread safety: one thread at a time.
#pragma once

#include "src/optim/optimizer.h"

namespace kinet {

// Device pointers; laid out like UpdateArenas.
struct DeviceArenas {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* history = nullptr;
  size_t floats = 0;  // of the weights
};

class DeviceOptimizer {
 public:
  virtual ~DeviceOptimizer() = default;

  virtual int histories() const = 0;  // as the rule has on the host

  // One update of all segments; takes its place in the device's order and does not wait.
  virtual void update(const UpdateStep& step, const DeviceArenas& arenas) = 0;
};

}  // namespace kinet
