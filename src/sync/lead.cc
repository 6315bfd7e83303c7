#include "src/sync/lead.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {

Lead::Lead(Communicator& comm, const SyncLayout& layout, ServerRank& server, SyncModel& model,
           const LeadOptions& options)
    : comm_(comm),
      layout_(layout),
      server_(server),
      model_(model),
      options_(options),
      test_parts_(layout.workers),
      peers_(layout.workers),
      books_(layout.workers),
      pushed_(layout.workers) {
  for (Peer& p : peers_) p.slots.assign(server.slots(), -1);
  listen();
}

Lead::~Lead() {
  comm_.remove(lost_handler_);
  for (const uint8_t kind : {kGradientKind, kCompleteKind, kTestSumsKind, kWishKind, kByeKind}) {
    comm_.on_message(kind, nullptr);
  }
  server_.on_complete(nullptr);
  server_.on_hello(nullptr);
}

void Lead::listen() {
  const auto note = [this](Inbox in) { inbox_.push_back(std::move(in)); };
  const auto from_worker = [this](Rank from) { return from >= layout_.servers; };
  const auto lost = [=, this](Rank peer, const std::string& why) {
    Inbox in{.kind = Inbox::Kind::kLost, .worker = layout_.worker_of(peer), .text = why};
    if (from_worker(peer)) server_.forget(in.worker);
    note(std::move(in));
  };
  server_.on_hello([=](int worker) { note({.kind = Inbox::Kind::kHello, .worker = worker}); });
  server_.on_complete([=](int worker, uint32_t tag) {
    note({.kind = Inbox::Kind::kComplete, .worker = worker, .seq_tag = tag});
  });
  comm_.on_message(kCompleteKind, [=](Rank, std::span<const std::byte> payload) {
    const auto m = read_message<CompleteMessage>(payload);
    note({.kind = Inbox::Kind::kComplete, .worker = m.worker, .seq_tag = m.seq_tag});
  });
  comm_.on_message(kGradientKind, [=, this](Rank from, std::span<const std::byte> payload) {
    if (!from_worker(from)) return;
    note({.kind = Inbox::Kind::kGradient,
          .worker = layout_.worker_of(from),
          .gradient = read_message<GradientMessage>(payload)});
  });
  comm_.on_message(kTestSumsKind, [=, this](Rank from, std::span<const std::byte> payload) {
    if (!from_worker(from)) return;
    const int worker = layout_.worker_of(from);
    PartHead head;
    std::memcpy(&head, payload.data(), std::min(sizeof(head), payload.size()));
    const auto whole = test_parts_[worker].add(payload);
    if (!whole) return;
    Inbox in{.kind = Inbox::Kind::kTestSums, .worker = worker, .number = head.number};
    in.sums.resize(whole->size() / sizeof(double));
    std::memcpy(in.sums.data(), whole->data(), in.sums.size() * sizeof(double));
    note(std::move(in));
  });
  comm_.on_message(kWishKind, [=, this](Rank from, std::span<const std::byte> payload) {
    note({.kind = Inbox::Kind::kWish,
          .worker = layout_.worker_of(from),
          .wish = read_message<WishMessage>(payload)});
  });
  comm_.on_message(kByeKind, [=, this](Rank from, std::span<const std::byte>) {
    if (from_worker(from)) note({.kind = Inbox::Kind::kBye, .worker = layout_.worker_of(from)});
  });
  comm_.locked([&] {
    lost_handler_ = comm_.on_peer_lost(lost);
    for (Rank r = 1; r < comm_.size(); ++r) {  // before there was this object
      if (comm_.state(r) == PeerState::kLost) lost(r, comm_.why_lost(r));
    }
  });
}

void Lead::start_at(double iteration, int64_t round, const std::vector<int64_t>& next_batch) {
  iteration_ = iteration;
  round_.number = round;
  model_.start_at(round, next_batch);
  for (int w = 0; w < layout_.workers; ++w) {
    WorkerBook& book = books_[w];
    book.next_seq = book.next_batch = book.first_unused = next_batch[w];
  }
}

void Lead::wait_for_workers(const std::function<bool()>& interrupted) {
  const auto absent = [this] {
    std::vector<std::string> names;
    for (int w = 0; w < layout_.workers; ++w) {
      if (peers_[w].life == 0 && peers_[w].gone.empty()) {
        names.push_back(comm_.name(layout_.rank_of(w)));
      }
    }
    return names;
  };
  while (!absent().empty() && !interrupted()) {
    comm_.wait_until([&] { return !inbox_.empty() || interrupted(); }, options_.start_timeout,
                     "hello of " + join(absent(), ", "));
    drain();
  }
  begun_ = true;
  for (int w = 0; w < layout_.workers; ++w) {
    if (peers_[w].gone.empty() || !options_.warn) continue;
    options_.warn(fmt::format("{} was lost before it began ({}); training begins without it",
                              comm_.name(layout_.rank_of(w)), peers_[w].gone));
  }
}

Lead::Event Lead::next(const std::function<bool()>& interrupted) {
  for (;;) {
    drain();
    if (interrupted() || wishes_.stop || wishes_.stop_now || wishes_.snapshot) {
      return Event::kInterrupted;
    }
    if (test_ && std::all_of(test_->begin(), test_->end(), [](const Share& s) { return s.done; })) {
      return Event::kTestDone;
    }
    if (model_.live() == 0) {
      wait_for_successor(interrupted);
      continue;
    }
    const std::optional<Plan> plan = held_ ? std::nullopt : model_.next(comm_.now());
    if (plan) {
      commit(*plan);
      if (plan->applies()) return Event::kRound;
      continue;
    }
    comm_.note_progress(static_cast<uint64_t>(round_.number) + 1, "waiting for gradients");
    comm_.wait_until([&] { return !inbox_.empty() || interrupted(); }, options_.timeout,
                     "the gradients of the workers");
  }
}

bool Lead::drain() {
  std::deque<Inbox> came;
  comm_.locked([&] { came.swap(inbox_); });
  for (const Inbox& in : came) take(in);
  return !came.empty();
}

void Lead::take(const Inbox& in) {
  using Kind = Inbox::Kind;
  if (in.kind == Kind::kLost && in.worker < 0) {
    fail_runtime("a server is lost: {}", comm_.first_loss());
  }
  Peer& peer = peers_[in.worker];
  switch (in.kind) {
    case Kind::kHello:
      greet(in.worker);
      break;
    case Kind::kLost:
      lose(in.worker, in.text);
      break;
    case Kind::kGradient:
      if (!peer.computing || in.gradient.seq != books_[in.worker].next_seq) break;
      peer.header = in.gradient;
      if (in.gradient.in_slot != 0) peer.complete = layout_.servers;
      take_gradient(in.worker);
      break;
    case Kind::kComplete:
      if (!peer.computing || in.seq_tag != peer.seq_tag) break;
      ++peer.complete;
      take_gradient(in.worker);
      break;
    case Kind::kTestSums:
      if (test_ && in.number == static_cast<uint32_t>(test_number_)) {
        server_.take_back(in.worker, ServerRank::Loan::kTest);
        finish_share(in.worker, in.sums);
      }
      break;
    case Kind::kWish:
      wishes_.stop |= in.wish.stop;
      wishes_.stop_now |= in.wish.stop_now;
      wishes_.snapshot |= in.wish.snapshot;
      break;
    case Kind::kBye:
      peer.stopped = true;
      break;
  }
}

void Lead::greet(int worker) {
  Peer& peer = peers_[worker];
  ++peer.life;
  peer.stopped = peer.computing = false;
  peer.gone.clear();
  peer.header.reset();
  peer.buffer = 0;
  books_[worker].alive = true;
  books_[worker].name = comm_.name(layout_.rank_of(worker));
  model_.on_worker(worker, true);
  if (peer.life == 1 && !begun_) return;
  peer.fresh = peer.life > 1;
  news_.push_back(fmt::format("worker {} joins", worker));
  if (options_.note) {
    options_.note(
        fmt::format("{} joins as worker {} at version {}; training goes on with {} of {} "
                    "workers",
                    name_of(worker), worker, round_.number, model_.live(), layout_.workers));
  }
}

void Lead::lose(int worker, const std::string& why) {
  WorkerBook& book = books_[worker];
  Peer& peer = peers_[worker];
  peer.stopped = true;
  if (!book.alive) {
    if (peer.life == 0) peer.gone = comm_.why_lost(layout_.rank_of(worker));
    return;
  }
  book.alive = false;
  if (peer.computing) {
    peer.slots[peer.slot] = -1;
    ++book.next_seq;
    book.next_batch += peer.steps;
  }
  peer.computing = false;
  peer.header.reset();
  resets_.push_back(worker);
  book.losses += comm_.state(layout_.rank_of(worker)) == PeerState::kLost ? 1 : 0;
  last_lost_ = fmt::format("{} ({})", book.name, why);
  news_.push_back(fmt::format("worker {} lost", worker));
  model_.on_worker(worker, false);
  finish_share(worker, {});
  if (options_.warn && comm_.state(layout_.rank_of(worker)) == PeerState::kLost) {
    options_.warn(fmt::format("{} is lost ({}); training goes on with {} of {} workers", book.name,
                              why, model_.live(), layout_.workers));
  }
}

// The launcher may be about to start one.
void Lead::wait_for_successor(const std::function<bool()>& interrupted) {
  const double limit = comm_.now() + options_.successor_timeout;
  while (model_.live() == 0 && comm_.now() < limit && !interrupted()) {
    comm_.sleep_until(limit, [&] { return !inbox_.empty() || interrupted(); });
    drain();
  }
  if (model_.live() > 0 || interrupted()) return;
  fail_runtime("iteration {}: no worker is left; the last one was {}", iteration_, last_lost_);
}

// The gradient of a worker, when its header and every slice are there.
void Lead::take_gradient(int worker) {
  Peer& peer = peers_[worker];
  if (!peer.header) return;
  const GradientMessage g = *peer.header;
  if (g.outcome != Outcome::kCancelled && peer.complete < layout_.servers) return;
  WorkerBook& book = books_[worker];
  server_.take_back(worker, ServerRank::Loan::kAnswer);
  peer.header.reset();
  peer.computing = false;
  peer.buffer = g.buffer;
  ++book.next_seq;
  book.next_batch += g.outcome == Outcome::kGradient ? g.steps : peer.steps;
  book.rate = g.rate;
  book.waiting_seconds += g.waiting_seconds;
  book.waited_seconds += g.waiting_seconds;
  book.compute_seconds += g.compute_seconds;
  if (g.outcome == Outcome::kGradient) {
    bad_in_a_row_ = 0;
    book.samples += g.samples;
    pushed_[worker].push_back(g);
    Gradient out;
    out.worker = worker;
    out.seq = g.seq;
    out.version = g.version;
    out.steps = g.steps;
    out.loss = g.loss;
    out.norm_squared = g.norm_squared;
    out.rate = g.rate;
    out.seconds = comm_.now() - peer.answered;
    model_.on_gradient(out);
    return;
  }
  peer.slots[peer.slot] = -1;
  if (g.outcome == Outcome::kCancelled) {
    ++book.cancelled;
  } else {
    drop_bad(worker, g);
  }
  model_.on_idle(worker);
}

void Lead::drop_bad(int worker, const GradientMessage& g) {
  WorkerBook& book = books_[worker];
  if (g.outcome == Outcome::kBadWeights) {
    fail_runtime(
        "iteration {}: the weights of version {} are not finite, as {} found; no snapshot is "
        "written\nhint: lower base_lr (the rate is {:.6g}), warm up with warmup_iter, or limit the "
        "gradient with clip_gradients",
        iteration_, g.version, book.name, round_.learning_rate);
  }
  ++bad_in_a_row_;
  if (++book.bad == 1 && options_.warn) {
    options_.warn(fmt::format(
        "{}: its gradient at version {} is not finite and is dropped; more like it are only "
        "counted, {} in a row end the run",
        book.name, g.version, options_.max_bad + 1));
  }
  if (bad_in_a_row_ <= options_.max_bad) return;
  fail_runtime(
      "iteration {}: {} gradients in a row are not finite (max_bad {}), the last one of {}\n"
      "hint: lower base_lr, warm up with warmup_iter, or limit the gradient with "
      "clip_gradients; look for wrong values in the data",
      iteration_, bad_in_a_row_, options_.max_bad, book.name);
}

WishMessage Lead::take_wishes() { return std::exchange(wishes_, {}); }

std::vector<double> Lead::take_waiting() {
  std::vector<double> out;
  for (WorkerBook& book : books_) out.push_back(std::exchange(book.waiting_seconds, 0.0));
  return out;
}

void Lead::start_test(int64_t iteration) {
  Command command;
  command.head.round = round_.number;
  test_.emplace();
  ++test_number_;
  for (int w = 0; w < layout_.workers; ++w) {
    if (!books_[w].alive) continue;
    command.tests.push_back({w, peers_[w].life});
    test_->push_back({w, false, {}});
  }
  send_command(command);
  server_.execute(command);
  TestTaskMessage task{iteration, test_number_, 0, static_cast<int32_t>(test_->size())};
  for (const Share& share : *test_) {
    task.weights = server_.lent(share.worker, ServerRank::Loan::kTest);
    comm_.send(layout_.rank_of(share.worker), kTestTaskKind, bytes_of(task));
    ++task.share;
  }
}

void Lead::finish_share(int worker, std::vector<double> sums) {
  if (!test_) return;
  for (Share& share : *test_) {
    if (share.worker != worker || share.done) continue;
    share.done = true;
    share.sums = std::move(sums);
    return;
  }
}

std::vector<std::vector<double>> Lead::take_test_results() {
  std::vector<std::vector<double>> out;
  for (Share& share : *test_) out.push_back(std::move(share.sums));
  test_.reset();
  return out;
}

void Lead::stop_workers(int64_t iteration, const std::function<bool()>& interrupted) {
  for (int w = 0; w < layout_.workers; ++w) {
    if (books_[w].alive) {
      comm_.send(layout_.rank_of(w), kStopKind, bytes_of(StopMessage{iteration}));
    }
  }
  const auto all_stopped = [this] {
    for (int w = 0; w < layout_.workers; ++w) {
      if (books_[w].alive && !peers_[w].stopped) return false;
    }
    return true;
  };
  while (!all_stopped() && !interrupted()) {
    comm_.wait_until([&] { return !inbox_.empty() || interrupted(); }, options_.timeout,
                     "all workers to stop");
    drain();
  }
}

void Lead::stop_servers() {
  Command command;
  command.head.round = round_.number;
  command.head.stop = 1;
  send_command(command);
}

}  // namespace kinet
