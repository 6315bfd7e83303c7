// The machinery of run_virtual(): events, the servers, the workers, the books.
//
// Events are calls at virtual times (src/base/event_queue.h); at equal times in the order in which
// they were added. The course of one push:
//
//   answer()   the servers send weights; the push is known from here on, and its task is queued
//   begin()    they are at the worker, which computes for step_seconds
//   leave()    the computation ends; the bytes go over the link
//   arrive()   all of it is at every server: the model is told
//   look()     when the servers have nothing else to do: plans of the model are carried out, each
//              takes its time; answers leave when that is over
//
// Thread safety: none. What the real servers do to weights is done here by Shard, over all of them
// at once: slices differ in time (cost / servers), not in arithmetic.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/event_queue.h"
#include "src/optim/lr_policy.h"
#include "src/sim/virtual_books.h"
#include "src/sim/virtual_cluster.h"
#include "src/sim/virtual_worker.h"
#include "src/sync/compress.h"
#include "src/sync/shard.h"
#include "src/sync/sync.h"

namespace kinet {

class VirtualRun {
 public:
  VirtualRun(Problem& problem, const VirtualSpec& spec, SolverObserver* observer);
  ~VirtualRun();
  VirtualResult run();

 private:
  using Call = std::function<void()>;
  using PushPtr = std::shared_ptr<Push>;
  struct Peer {
    bool alive = false;
    uint32_t life = 0;
    int64_t next_seq = 0, next_batch = 0, steps_drawn = 0;
    PushPtr computing;         // from answer() on until it is at the servers
    std::deque<PushPtr> held;  // at the servers, not used
    std::unique_ptr<WorkerRule> rule;
    std::unique_ptr<PushCompressor> compressor;
    std::vector<float> local;  // weights that a rule moves
    Lanes::Handle last_task;   // of a rule: the next one comes after it
    double free_at = 0;        // it computes until then
    double last_loss = 0;
    bool loss_known = false;
    double waits_since = 0;
  };

  // virtual_run.cc: set-up, the loop, the servers
  void set_up();
  void equip(int worker);  // with a rule and codecs of its own, if there are any
  void at(double time, Call call) { events_.push(time, std::move(call)); }
  bool ended() const;
  void look();
  double commit(const Plan& plan);  // seconds that the servers need for it
  struct Taken {                    // pushes of a plan, without those that are dropped
    std::vector<Shard::Member> members;
    std::vector<PushPtr> pushes;
    double weight = 0, loss = 0, iterations = 0;
    double gap = 0;  // mean of the members, where it is measured
    int64_t samples = 0;
  };
  Taken take(const Plan& plan);
  double apply(Taken& taken);
  double gap(const Push& push) const;
  void measure();
  void record(const Plan& plan, const Taken& taken, double cost);
  void after_round(double before);
  void test();
  void fail_with(const std::string& reason);
  void join(int worker);
  void leave(int worker);

  // virtual_run_workers.cc: the way of a push
  void answer(int worker, double when);
  void send_answer(const PushPtr& push);
  void begin(const PushPtr& push);
  void start_task(const PushPtr& push, bool early);
  void computed(const PushPtr& push);
  bool in_pieces(const Peer& peer) const;
  double encode_seconds(const Peer& peer) const;
  void compress(Push& push);  // its values become what the servers decode
  uint64_t pushed_bytes(const Push& push, int server) const;
  void depart(const PushPtr& push, double early_from);
  void arrive(const PushPtr& push);
  void cancel(int worker, double when);
  bool current(const PushPtr& push) const;  // its worker is the one that was asked
  double draw_steps(Peer& peer, int worker, int64_t steps);
  // Transmissions, one after the other; `done` when the last byte of the last is there.
  void transmit(Rank from, Rank to, const std::vector<uint64_t>& messages, bool up, Call done);
  std::vector<uint64_t> part(int server, bool split, bool first) const;
  // virtual_run_exchange.cc: what does not go over the servers' links
  void set_up_messages(bool packed);
  double copy_seconds(int worker) const;  // of one push or answer, message after message
  double fetch(const Taken& taken);       // the server's time to copy pushes in
  double bring(int worker);               // and an answer out
  void gather(const PushPtr& push);
  void sum_by_tree();
  double tree_seconds(bool sum) const;
  // Every server has a node of its own; the workers share theirs as the profile says.
  int per_node() const { return std::max(1, spec_.cluster.link.ranks_per_node); }
  Rank server_rank(int server) const { return server * per_node(); }
  Rank rank_of(int worker) const { return servers_ * per_node() + worker; }
  uint64_t slice_bytes() const { return bytes_ / static_cast<uint64_t>(std::max(1, servers_)); }
  double all_reduce_seconds() const;

  Problem& problem_;
  const VirtualSpec spec_;
  VirtualBooks books_;
  int servers_ = 1;
  uint64_t bytes_ = 0, floats_ = 0;              // of one push; of the parameters
  std::vector<std::vector<uint64_t>> messages_;  // by server: bytes of what makes up its slice
  bool copies_ = false, tree_ = false;           // ServerCosts::Exchange
  std::vector<PushPtr> gathered_;                // of a tree that waits for the others
  bool overlap_ = true;
  uint64_t bucket_ = 0;
  CompressSettings compress_;
  std::vector<std::byte> encoded_;  // scratch
  LrPolicy policy_;
  std::unique_ptr<SyncModel> model_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<LinkModel> link_;
  std::vector<float> weights_;  // P, then B
  std::vector<float> history_;
  Sent published_;  // of the newest version; null: not made yet
  int passes_ = 3;
  WorkerKnows knows_;
  RuleSetup rule_setup_;  // of the workers
  std::vector<Peer> peers_;
  EventQueue<Call> events_;
  std::deque<Call> inbox_;  // of the servers
  double now_ = 0, server_free_ = 0, iteration_ = 0, measured_at_ = 0, rate_ = 0;
  bool looking_ = false, tests_ = true;
  int64_t version_ = 0, tested_ = -1, displayed_ = -1;
  RoundFacts facts_;      // of the last round
  double last_step_ = 0;  // seconds of the last computation that ended
  std::vector<int> resets_;
  std::vector<PlanMember> dropped_;
  std::string news_, reason_;
  Lanes lanes_;  // last: its tasks end before what they read
};

}  // namespace kinet
