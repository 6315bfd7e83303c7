// Times whole iterations of training: forward, backward and an update, as the solver makes them.
//
// Unlike the layers timed one by one, nothing waits between layers: on a GPU that is what training
// takes. The update is SGD with momentum and weight decay, at a learning rate of 0, so that weights
// stay what they are however many iterations are timed.
#pragma once

#include "src/net/net.h"

namespace kinet {

struct WholePasses {
  // Milliseconds. Medians, each part waited for by itself:
  double forward_ms = 0, backward_ms = 0, update_ms = 0;
  double iteration_ms = 0;  // mean of whole ones, that wait only for the loss
};

// `iterations` of each kind, after some to warm up. Data layers count in forward.
WholePasses time_whole_passes(Net& net, int iterations, int threads);

}  // namespace kinet
