// One worker of a virtual cluster: what it holds, and the computation it is at. No time, no
// network.
//
// A push is made of one or several mini-batches at weights that came from the servers (WorkerRule).
// It is computed as a task of Lanes: everything it reads is its own or const, so the result does
// not depend on when it runs. Tasks of one worker that has a rule run one after the other.
// Thread safety: none; tasks touch the Push and the rule alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/sim/lanes.h"
#include "src/sim/problem.h"
#include "src/sync/rule.h"

namespace kinet {

// Weights as they were sent: P parameters, then B buffers.
using Sent = std::shared_ptr<const std::vector<float>>;

struct Push {
  int worker = 0;
  uint32_t life = 0;
  int64_t seq = 0, version = 0;
  int64_t batch = 0;  // number of its first mini-batch
  int64_t steps = 1;  // asked for; when computed: done
  int64_t iteration = 0;
  Sent at;                            // weights it is computed at
  std::vector<float> values;          // P, then B
  double loss = 0, norm_squared = 0;  // of what is pushed
  double computed_loss = 0;  // of the mini-batches; `loss` but where the push left before them
  bool finite = true;
  double answered = 0;        // when the servers sent the weights
  double begin = 0, end = 0;  // of the computation
  int pieces = 0;             // transmissions that have not arrived
  bool gathered = false;      // it waits for the others of a tree
  Lanes::Handle task;
};

struct WorkerKnows {
  Problem* problem = nullptr;
  int workers = 1;
  double clip = -1;  // of steps of a worker's own
  std::function<double(int64_t)> schedule;
};

// Computes push.values and what goes with it: a gradient, or with `rule` what that makes. `early`:
// received() and push() were called already: values, loss and norm are there and stay.
void compute_push(const WorkerKnows& knows, WorkerRule* rule, std::vector<float>& local, Push& push,
                  int lane, bool early);
// The first half, for a rule that pushes early: values are those of the weights it moves to.
void begin_early(const WorkerKnows& knows, WorkerRule& rule, std::vector<float>& local, Push& push);

}  // namespace kinet
