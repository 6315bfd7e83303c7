// Signals while training: SIGINT or SIGTERM: snapshot and stop; a second one: stop now; a third one
// ends the process at once. SIGHUP: snapshot and go on. SIGPIPE: ignored, since a log that nobody
// reads any more is no reason to stop. Commands that train by other means have words of their own.
//
// A handler may only set flags and write bytes; the solver looks at the flags after every
// iteration. REQUIRES: one object at a time; the process has one set of handlers.
#pragma once

#include "src/solver/solver.h"

namespace kinet {

// What is said to the user: lines that begin and end with a line break.
struct SignalWords {
  const char* stop =
      "\nkinet: stopping after this iteration, with a snapshot; once more stops now\n";
  const char* stop_now = "\nkinet: stopping now, without a snapshot\n";
  const char* snapshot = "\nkinet: a snapshot follows this iteration, then training goes on\n";
};

class TrainingSignals {
 public:
  explicit TrainingSignals(SolverControl& control, const SignalWords& words = {});
  ~TrainingSignals();  // puts the former handlers back
  TrainingSignals(const TrainingSignals&) = delete;
  TrainingSignals& operator=(const TrainingSignals&) = delete;

  // The signal that asked for the end, or 0.
  int stopped_by() const;
};

}  // namespace kinet
