// What a layer needs besides its tensors. Passed in; there are no global singletons, so that two
// workers in one process work.
#pragma once

#include <cstdint>

namespace kinet {

class Device;  // src/net/device.h

enum class Phase { kTrain, kTest };

inline const char* phase_name(Phase phase) { return phase == Phase::kTrain ? "TRAIN" : "TEST"; }

struct Context {
  Phase phase = Phase::kTrain;
  int threads = 1;    // threads a layer may use for one pass
  uint64_t seed = 0;  // of the run
  int64_t pass = 0;   // number of this forward pass in the run: iteration * iter_size + micro-batch
  Device* device = nullptr;  // where the layer runs, set by its net; null: on the host
};

}  // namespace kinet
