// What happens during training, told to whoever shows or records it: the terminal line, the
// Caffe-shaped log, metrics.jsonl, TensorBoard events, report.html.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kinet {

// One output blob of a net at a display or test; a blob with several elements gives several.
struct OutputValue {
  std::string name;
  double value = 0;
  float loss_weight = 0;  // 0: not a loss
};

struct StartRecord {
  std::string net_name, solver_type, lr_policy;
  uint64_t seed = 0;
  bool seed_chosen = false;  // by the clock, since neither file nor flag gave one
  int threads = 1;
  int64_t iteration = 0, max_iterations = 0;  // where this run begins and ends
  std::string resumed_from;                   // a .solverstate, or ""
  std::vector<std::string> weights;           // .caffemodel files it began with
  int64_t parameters = 0;
  int64_t batch = 0, iter_size = 1, train_items = 0;  // 0: unknown (no data layer)
  int workers = 1;                                    // that train together
  double iterations_per_epoch = 0;
  std::string iteration_rule;  // of several workers: what an iteration is; else ""
  std::string history;         // "empty" or "restored (2 entries a parameter)"
};

struct DisplayRecord {
  int64_t iteration = 0;  // updates applied so far
  double epoch = 0;
  double seconds = 0;  // of this run, since its start
  double loss = 0;     // averaged over average_loss iterations
  double learning_rate = 0;
  double gradient_norm = 0;  // of the averaged gradient, before clipping
  double iterations_per_second = 0, images_per_second = 0;  // since the last display
  int64_t since_last = 0;                                   // iterations since the last display
  double seconds_since_last = 0;
  double waiting_seconds = 0;  // of them: waiting for other workers, and summing
  double rate_multiplier = 1;  // in learning_rate: of the learning-rate search
  double search_share = 0;     // of the time of all iterations so far: spent in it
  std::vector<OutputValue> outputs;
};

struct TestRecord {
  int64_t iteration = 0;
  int net = 0;                       // number of the test net
  double loss = 0;                   // mean over items (losses weighted), when there is a loss
  std::vector<OutputValue> outputs;  // means over items
  int64_t items = 0;                 // scored
  int64_t set_items = 0;             // in the set; 0 unknown
  double at = 0;         // seconds since the run began when the tested weights were there
  double seconds = 0;    // that the test took
  std::string coverage;  // "" when each item was scored once, else a sentence
};

struct FinishRecord {
  int64_t iteration = 0;
  double seconds = 0;
  double loss = 0;
  std::string reason;         // "max_iter", "max_epochs", "early stop: ...", "interrupted"
  std::string last_snapshot;  // path of the .solverstate, or ""
};

// One decision about the gradients of several workers: one new version of the weights.
struct RoundRecord {
  struct Member {  // a gradient that went into it, or was dropped since the round before
    int worker = 0;
    int64_t seq = 0;     // which of that worker's gradients
    double weight = 0;   // with which it was applied
    int lag = 0;         // versions between the weights it was computed on and these
    double rate = 0;     // its worker's learning rate
    std::string how;     // "fresh", "ordered", "drop", ...: what was done with it
    double seconds = 0;  // that a mini-batch of it took its worker; 0: not known
    int64_t steps = 1;   // mini-batches behind it
  };
  int64_t round = 0;
  double iteration = 0;  // after it; whole where every round is one
  double seconds = 0;    // since the run began
  int k = 0, live = 0;   // gradients waited for; workers alive
  std::vector<Member> members;
  std::vector<std::pair<std::string, double>> terms;  // what k was decided from, by name
  double loss = 0;                                    // mean over the members
  std::vector<double> waiting;  // seconds each worker has waited since the last record
  int dropped = 0;              // late gradients dropped since the last record
  double service = 0;           // seconds that the first server needed for it; 0: not known
  std::string note;             // what else there is to say of it
};

class SolverObserver {
 public:
  virtual ~SolverObserver() = default;
  virtual void on_start(const StartRecord&) {}
  virtual void on_iteration(int64_t /*iteration*/, double /*loss*/) {}  // after every update
  virtual void on_round(const RoundRecord&) {}
  virtual void on_display(const DisplayRecord&) {}
  virtual void on_test(const TestRecord&) {}
  virtual void on_snapshot(int64_t /*iteration*/, const std::string& /*path*/) {}
  virtual void on_note(const std::string& /*text*/) {}     // worth reading, nothing is wrong
  virtual void on_warning(const std::string& /*text*/) {}  // something went wrong, the run goes on
  virtual void on_finish(const FinishRecord&) {}
};

}  // namespace kinet
