// The way of a push: from the servers' answer over the computation back to the servers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "src/math/vec.h"
#include "src/sim/virtual_run.h"

namespace kinet {
namespace {

constexpr double kForward = 1.0 / 3;  // part of a step before backward begins

}  // namespace

bool VirtualRun::current(const PushPtr& push) const {
  const Peer& peer = peers_[push->worker];
  return peer.life == push->life && peer.computing == push;
}

void VirtualRun::answer(int worker, double when) {
  if (published_ == nullptr) {
    auto copy = std::make_shared<std::vector<float>>(weights_);
    shard_->publish(std::span<float>(*copy).first(floats_));
    published_ = std::move(copy);
  }
  shard_->sent(worker, std::span<const float>(*published_).first(floats_));
  Peer& peer = peers_[worker];
  auto push = std::make_shared<Push>();
  push->worker = worker;
  push->life = peer.life;
  push->seq = peer.next_seq++;
  push->version = version_;
  push->batch = peer.next_batch;
  push->iteration = static_cast<int64_t>(std::floor(iteration_));
  push->steps =
      std::min(model_->steps_of(worker), std::max<int64_t>(1, spec_.end - push->iteration));
  push->at = published_;
  push->answered = when;
  peer.computing = push;
  const bool early = peer.rule != nullptr && peer.rule->pushes_early() && overlap_;
  if (!early) start_task(push, false);
  if (when > now_) {
    at(when, [this, push] { send_answer(push); });
  } else {
    send_answer(push);
  }
}

void VirtualRun::start_task(const PushPtr& push, bool early) {
  Peer& peer = peers_[push->worker];
  WorkerRule* rule = peer.rule.get();
  if (rule != nullptr && peer.last_task) lanes_.wait(peer.last_task);
  const double due = now_ + spec_.cluster.steps->mean();
  push->task = lanes_.submit(due, [this, push, rule, &local = peer.local, early](int lane) {
    compute_push(knows_, rule, local, *push, lane, early);
  });
  peer.last_task = push->task;
}

void VirtualRun::send_answer(const PushPtr& push) {
  if (!current(push)) return;
  if (servers_ == 0 || copies_ || tree_) return begin(push);
  auto missing = std::make_shared<int>(servers_);
  for (int server = 0; server < servers_; ++server) {
    transmit(server_rank(server), rank_of(push->worker), messages_[server], false,
             [this, push, missing] {
               if (--*missing == 0) begin(push);
             });
  }
}

double VirtualRun::draw_steps(Peer& peer, int worker, int64_t steps) {
  double seconds = 0;
  for (int64_t i = 0; i < steps; ++i) {
    seconds += spec_.cluster.steps->seconds(worker, peer.steps_drawn++);
  }
  return seconds;
}

void VirtualRun::begin(const PushPtr& push) {
  if (!current(push)) return;
  Peer& peer = peers_[push->worker];
  if (peer.free_at > now_) {  // the push before left early: its gradient is still being computed
    at(peer.free_at, [this, push] { begin(push); });
    return;
  }
  books_.waited(push->worker, now_ - peer.waits_since);
  const bool overlapping = peer.rule != nullptr && peer.rule->pushes_early() && overlap_;
  const bool early = overlapping && peer.loss_known;
  if (early) {
    lanes_.wait(peer.last_task);
    push->loss = peer.last_loss;
    begin_early(knows_, *peer.rule, peer.local, *push);
  }
  if (overlapping) start_task(push, early);
  if (peer.rule != nullptr && peer.rule->most_steps() > 0) lanes_.wait(push->task);
  const double seconds = draw_steps(peer, push->worker, push->steps) + encode_seconds(peer);
  push->begin = now_;
  push->end = peer.free_at = now_ + seconds;
  books_.result.compute_seconds += seconds;
  if (early) depart(push, now_);
  // A gradient leaves from the beginning of backward on, all but its last piece.
  if (servers_ > 0 && !copies_ && !tree_ && in_pieces(peer)) {
    at(now_ + kForward * seconds, [this, push] {
      if (current(push)) depart(push, push->begin);
    });
  }
  at(push->end, [this, push, early] {
    Peer& p = peers_[push->worker];
    if (p.life != push->life) return;
    if (early) {  // the push has long left; maybe the next answer is there
      p.waits_since = now_;
      lanes_.wait(push->task);
      p.last_loss = push->computed_loss;
    } else if (current(push)) {
      computed(push);
    }
  });
}

// A gradient leaves while it is computed; what a rule or a codec makes of it, when it is whole.
bool VirtualRun::in_pieces(const Peer& peer) const {
  return peer.rule == nullptr && peer.compressor == nullptr && overlap_ && bytes_ > bucket_;
}

// At the speed of a server's memory.
double VirtualRun::encode_seconds(const Peer& peer) const {
  if (peer.compressor == nullptr) return 0;
  return static_cast<double>(floats_ * sizeof(float)) * peer.compressor->encode_passes() /
         spec_.cluster.server.bytes_per_second;
}

uint64_t VirtualRun::pushed_bytes(const Push& push, int server) const {
  const Peer& peer = peers_[push.worker];
  if (peer.compressor == nullptr) return slice_bytes();
  const uint64_t buffers = server == 0 ? bytes_ - floats_ * sizeof(float) : 0;
  return peer.compressor->bytes(server, push.seq) + buffers;
}

// When it arrives, not when it is computed: a computation may be given up, and what a codec
// remembers goes by what was sent.
void VirtualRun::compress(Push& push) {
  PushCompressor& compressor = *peers_[push.worker].compressor;
  const std::span<float> values = std::span<float>(push.values).first(floats_);
  compressor.prepare(std::span<const float>(*push.at).first(floats_), values);
  for (int server = 0; server < servers_; ++server) {
    encoded_.resize(compressor.most_bytes(server));
    const auto room = std::span<std::byte>(encoded_).first(compressor.bytes(server, push.seq));
    compressor.encode(server, push.seq, values, room);
  }
  push.norm_squared = vec().sum_squares(static_cast<int64_t>(floats_), values.data());
}

void VirtualRun::computed(const PushPtr& push) {
  Peer& peer = peers_[push->worker];
  peer.waits_since = now_;
  last_step_ = push->end - push->begin;
  depart(push, -1);
}

// Whole, or with `begun` (>= 0) the first part of a gradient that is still being computed; the last
// piece follows when it is done.
void VirtualRun::depart(const PushPtr& push, double begun) {
  if (servers_ == 0 || copies_) return arrive(push);
  if (tree_) return gather(push);
  const Peer& peer = peers_[push->worker];
  const bool split = in_pieces(peer);
  if (push->pieces == 0) push->pieces = servers_ * (split ? 2 : 1);
  for (int server = 0; server < servers_; ++server) {
    const std::vector<uint64_t> messages = peer.compressor == nullptr
                                               ? part(server, split, begun >= 0)
                                               : std::vector<uint64_t>{pushed_bytes(*push, server)};
    transmit(rank_of(push->worker), server_rank(server), messages, true, [this, push] {
      if (--push->pieces == 0) arrive(push);
    });
  }
}

void VirtualRun::arrive(const PushPtr& push) {
  if (!current(push)) return;
  Peer& peer = peers_[push->worker];
  if (push->task != nullptr && !(peer.rule != nullptr && peer.free_at > now_)) {
    lanes_.wait(push->task);
  }
  if (!push->finite) {
    books_.result.diverged = true;
    fail_with("a push that is not finite");
    return;
  }
  if (peer.compressor != nullptr) compress(*push);
  if (!peer.loss_known) {
    peer.loss_known = true;
    peer.last_loss = push->loss;
  }
  peer.computing = nullptr;
  peer.next_batch += push->steps;
  peer.held.push_back(push);
  Gradient g;
  g.worker = push->worker;
  g.seq = push->seq;
  g.version = push->version;
  g.steps = push->steps;
  g.loss = push->loss;
  g.norm_squared = push->norm_squared;
  g.seconds = now_ - push->answered;
  inbox_.push_back([this, g] { model_->on_gradient(g); });
  look();
}

// The worker hears of it one latency later, and the servers of its giving up another one.
void VirtualRun::cancel(int worker, double when) {
  const PushPtr push = peers_[worker].computing;
  if (push == nullptr) return;
  const double latency =
      servers_ > 0 ? link_->wire(0, rank_of(worker)).latency : spec_.cluster.link.network.latency;
  at(when + latency, [this, push, worker, latency] {
    if (!current(push) || push->end <= now_ || push->begin >= push->end) return;
    Peer& peer = peers_[worker];
    lanes_.drop(push->task);
    books_.result.compute_seconds -= push->end - now_;
    peer.computing = nullptr;
    peer.next_batch += push->steps;
    peer.free_at = peer.waits_since = now_;
    at(now_ + latency, [this, worker, life = peer.life] {
      if (peers_[worker].life != life) return;
      inbox_.push_back([this, worker] { model_->on_idle(worker); });
      look();
    });
  });
}

// Of a gradient in two parts: all but the last piece, which is that of the first layer, or that
// one.
std::vector<uint64_t> VirtualRun::part(int server, bool split, bool first) const {
  const std::vector<uint64_t>& all = messages_[server];
  if (!split) return all;
  if (all.size() > 1) {
    return first ? std::vector<uint64_t>(all.begin() + 1, all.end())
                 : std::vector<uint64_t>(1, all.front());
  }
  const uint64_t last =
      std::min(std::max<uint64_t>(1, bucket_ / static_cast<uint64_t>(servers_)), all[0] - 1);
  return {first ? all[0] - last : last};
}

void VirtualRun::transmit(Rank from, Rank to, const std::vector<uint64_t>& messages, bool up,
                          Call done) {
  auto missing = std::make_shared<size_t>(messages.size());
  auto ended = std::make_shared<Call>(std::move(done));
  for (const uint64_t bytes : messages) {
    const double left = link_->leave(from, to, bytes, now_);
    at(left + link_->wire(from, to).latency, [this, from, to, bytes, up, missing, ended] {
      const double there = link_->arrive(from, to, bytes, now_);
      books_.moved(there, bytes, up);
      if (--*missing == 0) at(there, *ended);
    });
  }
}

// The faster of ring and recursive halving with doubling, over the slowest links; what can be
// hidden behind the last worker's backward is.
double VirtualRun::all_reduce_seconds() const {
  const auto n = static_cast<double>(model_->live());
  if (n < 2) return 0;
  const LinkModel::Parameters& p = spec_.cluster.link;
  const Wire& wire = spec_.workers > p.ranks_per_node ? p.network : p.node;
  const double step = wire.latency + wire.overhead;
  const double bytes =
      wire.bandwidth > 0 ? 2 * (n - 1) / n * static_cast<double>(bytes_) / wire.bandwidth : 0;
  const double seconds = std::min(2 * (n - 1) * step, 2 * std::ceil(std::log2(n)) * step) + bytes;
  if (!overlap_ || bytes_ <= bucket_) return seconds;
  const double last = seconds * static_cast<double>(bucket_) / static_cast<double>(bytes_);
  return std::max(last, seconds - (1 - kForward) * last_step_);
}

}  // namespace kinet
