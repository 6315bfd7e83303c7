// The lead of the servers: knows what every worker does, tells the model what arrives, and has its
// plans carried out by all servers. One loop, next(), does all of it.
//
// A worker is in one of these states:
//   absent     no hello yet, or lost
//   computing  it has an answer; its gradient, or word that there is none, is to come
//   waiting    the model decides when it is answered
// A gradient counts when its header and its slices at all servers are there. What a worker that is
// lost had pushed whole stays good, the rest is forgotten at every server.
//
// A worker that takes the place of a lost one begins with the newest weights, the next number of a
// gradient and no momentum of its own; that of a lost worker is forgotten.
// Non-finite gradients are dropped and counted; more than max_bad in a row end the run, and so do
// weights that are not finite.
// Failures: a lost server, or no worker left, is an Error. Thread safety: one thread.
// Reference: rules 9 to 17 of distributed training in docs/design.md.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/sync/server_rank.h"
#include "src/sync/sync.h"

namespace kinet {

struct LeadOptions {
  double timeout = 7200;         // seconds that workers which give signs of life may be waited for
  double start_timeout = 120;    // until every worker has said hello
  double successor_timeout = 0;  // without any worker: until one takes the place of a lost one
  int64_t end = INT64_MAX;       // iteration at which the run ends: no local steps beyond
  int max_bad = 10;              // non-finite gradients in a row
  std::function<double(int64_t iteration)> schedule;  // learning rate
  std::function<void(const std::string&)> warn;       // losses and the like, for people
  std::function<void(const std::string&)> note;       // that a worker has joined
};

// Of a worker, since the run began or as told.
struct WorkerBook {
  int64_t next_seq = 0;      // of the gradient that it computes next, or computes
  int64_t next_batch = 0;    // number of the first mini-batch of that gradient
  int64_t first_unused = 0;  // mini-batches from this one on are not in the weights
  int64_t applied = 0, dropped = 0, bad = 0, cancelled = 0, samples = 0;
  double waiting_seconds = 0;                      // since take_waiting()
  double waited_seconds = 0, compute_seconds = 0;  // since the run began
  double rate = 1;                                 // its own factor, as last heard
  SearchWords search{};                            // of the last gradient that was used
  int losses = 0;                                  // of its processes
  bool alive = false;
  std::string name;  // "rank 3 (host a, process 77)"
};

// A round that was applied.
struct LeadRound {
  int64_t number = 0;
  double iteration = 0;  // after it
  double learning_rate = 0, loss = 0, gradient_norm = 0, time = 0;
  int live = 0;
  Plan plan;
  std::vector<PlanMember> dropped;  // by plans of their own, since the round before
  double service = 0;               // seconds that this server needed for it
  // What a mini-batch of each gradient took its worker: (worker, seq) of plan and dropped.
  std::map<std::pair<int, int64_t>, double> seconds;
};

class Lead {
 public:
  Lead(Communicator& comm, const SyncLayout& layout, ServerRank& server, SyncModel& model,
       const LeadOptions& options);
  ~Lead();

  // Where the run begins: iteration, version, and the next mini-batch of each worker.
  void start_at(double iteration, int64_t round, const std::vector<int64_t>& next_batch);
  // Until every worker has said hello; throws Error naming those that have not.
  void wait_for_workers(const std::function<bool()>& interrupted);

  enum class Event { kRound, kTestDone, kInterrupted };
  // Until a round was applied, the test is done, or interrupted() or a worker wishes something.
  Event next(const std::function<bool()>& interrupted);
  const LeadRound& round() const { return round_; }
  double iteration() const { return iteration_; }
  WishMessage take_wishes();

  // Sends the newest weights to be tested, a share to each live worker; training goes on
  // meanwhile, and next() says when all shares are there. REQUIRES: !testing()
  void start_test(int64_t iteration);
  bool testing() const { return test_.has_value(); }
  int test_shares() const { return static_cast<int>(test_->size()); }
  // By share; empty: its worker was lost before it said anything.
  std::vector<std::vector<double>> take_test_results();

  // No plan is made while held (events are still taken): for the end of a run.
  void hold(bool on) { held_ = on; }
  // Tells all workers to stop and waits until they have, or are lost, or interrupted().
  void stop_workers(int64_t iteration, const std::function<bool()>& interrupted);
  void stop_servers();  // the others end; nothing may be gathered from them after it

  const std::vector<WorkerBook>& books() const { return books_; }
  std::vector<double> take_waiting();  // seconds by worker since the last call
  int take_dropped() { return std::exchange(dropped_, 0); }  // gradients, since the last call
  int live() const { return model_.live(); }

 private:
  struct Inbox {
    enum class Kind { kHello, kLost, kGradient, kComplete, kTestSums, kWish, kBye };
    Kind kind = Kind::kHello;
    int worker = 0;
    GradientMessage gradient{};
    uint32_t seq_tag = 0;
    std::string text{};
    std::vector<double> sums{};
    uint32_t number = 0;
    WishMessage wish{};
  };
  struct Peer {
    bool computing = false, stopped = false;
    bool cancelled = false;  // was told to give up what it computes
    uint32_t life = 0;
    bool fresh = false;  // has joined after a loss, and was not answered yet
    double answered = 0;
    int slot = 0, buffer = 0;
    int64_t steps = 1;           // mini-batches of what it computes
    std::vector<int64_t> slots;  // seq in each, or -1
    std::optional<GradientMessage> header;
    int complete = 0;      // servers that have all of it
    uint32_t seq_tag = 0;  // of what it computes
    std::string gone;      // why it was lost before its hello, or ""
  };
  void listen();
  bool drain();  // false: nothing came
  void take(const Inbox& in);
  void take_gradient(int worker);
  void greet(int worker);
  void lose(int worker, const std::string& why);
  void drop_bad(int worker, const GradientMessage& g);
  void wait_for_successor(const std::function<bool()>& interrupted);
  const std::string& name_of(int worker) const { return books_[worker].name; }
  void commit(const Plan& plan);
  void account(const Command& command, const Plan& plan);
  AnswerMessage answer(int worker, Command& command);
  void report(const Command& command, const ServerRank::Result& result, double service);
  void send_command(const Command& command);
  int slot_of(int worker, int64_t seq) const;
  void finish_share(int worker, std::vector<double> sums);

  Communicator& comm_;
  const SyncLayout layout_;
  ServerRank& server_;
  SyncModel& model_;
  const LeadOptions options_;
  std::deque<Inbox> inbox_;  // under the communicator's lock
  std::vector<PartAssembler> test_parts_;
  std::vector<Peer> peers_;
  std::vector<WorkerBook> books_;
  std::vector<std::vector<GradientMessage>> pushed_;  // by worker: complete, not used yet
  double iteration_ = 0;
  double measured_at_ = 0;  // iteration
  LeadRound round_;
  WishMessage wishes_;
  bool held_ = false;
  bool begun_ = false;  // the workers that the run begins with are there
  int bad_in_a_row_ = 0, dropped_ = 0;
  std::vector<PlanMember> dropped_members_;            // since the last round
  std::map<std::pair<int, int64_t>, double> seconds_;  // as LeadRound's
  std::string last_lost_;                              // worker, with why
  std::vector<int32_t> resets_;    // workers whose momentum goes with the next plan
  std::vector<std::string> news_;  // of workers, for the note of the next round
  int lost_handler_ = 0;

  struct Share {
    int worker = 0;
    bool done = false;
    std::vector<double> sums;
  };
  std::optional<std::vector<Share>> test_;
  int32_t test_number_ = 0;
};

}  // namespace kinet
