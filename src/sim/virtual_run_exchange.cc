// What pushes and answers are made of, and how they come and go where it is not over the servers'
// links: copied by the server, or through trees.
//
// Equations, with c = sum over the messages of a push of (latency + overhead + bytes / bandwidth):
//   copies   the server is busy for c with each push that it takes, and with each answer
//   tree     L = ceil(log2(ranks)) stages, ranks = workers, and one more where the weights lie at a
//            server: the sum is there L (c + add) after the last worker has its push ready, and
//            answers L c after they leave; add = 3 vectors over the server's memory
// A tree is taken to start when all are ready: stages that could begin before are not looked at,
// and links inside a tree are its own. Reference: You, Buluc and Demmel, SC17: packed layers and
// tree reduction.
#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/sim/virtual_run.h"

namespace kinet {
namespace {

constexpr double kAddPasses = 3;

}  // namespace

// Packed, a slice is one message; else each parameter is, as far as it lies in the slice, and the
// batch-norm statistics are.
void VirtualRun::set_up_messages(bool packed) {
  using Exchange = ServerCosts::Exchange;
  const Exchange exchange = spec_.cluster.server.exchange;
  copies_ = servers_ > 0 && exchange == Exchange::kCopies;
  tree_ = servers_ > 0 && exchange == Exchange::kTree && model_->of_all();
  if (servers_ > 1 && (copies_ || tree_)) {
    fail("a cluster with exchange: COPIES or TREE has one server, sync_param asks for {}",
         servers_);
  }
  if (compress_.any() && (copies_ || tree_)) {
    fail(
        "compressed pushes go over the servers' links\nhint: a cluster with exchange: LINKS, or "
        "compress: NONE");
  }
  std::vector<uint64_t> ends;
  if (!packed) {
    for (const ParameterSegment& s : problem_.segments()) {
      if (s.offset > 0) ends.push_back(s.offset * sizeof(float));
    }
    if (problem_.buffers() > 0) ends.push_back(floats_ * sizeof(float));
    std::sort(ends.begin(), ends.end());
  }
  for (int server = 0; server < servers_; ++server) {
    uint64_t begin = slice_bytes() * static_cast<uint64_t>(server);
    const uint64_t last = begin + slice_bytes();
    messages_.emplace_back();
    for (const uint64_t end : ends) {
      if (end <= begin || end >= last) continue;
      messages_.back().push_back(end - begin);
      begin = end;
    }
    messages_.back().push_back(last - begin);
  }
}

double VirtualRun::copy_seconds(int worker) const {
  double seconds = 0;
  for (const uint64_t bytes : messages_[0]) {
    seconds += link_->transfer_time(server_rank(0), rank_of(worker), bytes);
  }
  return seconds;
}

double VirtualRun::fetch(const Taken& taken) {
  double seconds = 0;
  if (!copies_) return seconds;
  for (const PushPtr& push : taken.pushes) {
    seconds += copy_seconds(push->worker);
    books_.moved(now_ + seconds, bytes_, true);
  }
  return seconds;
}

double VirtualRun::bring(int worker) {
  if (copies_ || tree_) books_.moved(now_, bytes_, false);
  return copies_ ? copy_seconds(worker) : 0;
}

void VirtualRun::gather(const PushPtr& push) {
  push->gathered = true;
  gathered_.push_back(push);
  books_.moved(now_, bytes_, true);
  sum_by_tree();
}

// Once all have come who were asked.
void VirtualRun::sum_by_tree() {
  const bool all = std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) {
    return !p.alive || p.computing == nullptr || p.computing->gathered;
  });
  if (!all || gathered_.empty()) return;
  at(now_ + tree_seconds(true), [this, pushes = std::exchange(gathered_, {})] {
    for (const PushPtr& push : pushes) arrive(push);
  });
}

double VirtualRun::tree_seconds(bool sum) const {
  const ServerCosts& server = spec_.cluster.server;
  const int ranks = std::max(1, model_->live() + (server.resident ? 0 : 1));
  const double stages = std::ceil(std::log2(ranks));
  const double add = sum ? kAddPasses * static_cast<double>(bytes_) / server.bytes_per_second : 0;
  return stages * (copy_seconds(0) + add);
}

}  // namespace kinet
