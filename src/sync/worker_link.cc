#include "src/sync/worker_link.h"

#include <algorithm>

#include "src/base/check.h"

namespace kinet {

WorkerLink::WorkerLink(Communicator& comm, const SyncLayout& layout,
                       const WorkerLinkOptions& options)
    : comm_(comm),
      layout_(layout),
      options_(options),
      queue_(comm),
      slots_(layout.servers),
      tickets_(layout.servers, 0) {
  size_t floats = (1 + kCopies) * layout.copy_floats();
  if (!options.encoded_bytes.empty()) {
    for (int s = 0; s < layout.servers; ++s) floats += encoded_floats(s);
  }
  memory_ = std::make_shared<SharedMemory>(floats * sizeof(float), "kinet worker");
  lent_.memory = memory_;
  owner_ = memory_;
  region_ = comm_.adopt({memory_->data(), memory_->bytes(), memory_->fd()});
  listen();
}

WorkerLink::~WorkerLink() {
  comm_.remove(lost_handler_);
  for (const uint8_t kind : {kSlotsKind, kAnswerKind, kCancelKind, kTestTaskKind, kStopKind}) {
    comm_.on_message(kind, nullptr);
  }
  comm_.on_put(kWeightsKind, nullptr);
  comm_.on_put(kTestWeightsKind, nullptr);
}

void WorkerLink::listen() {
  comm_.on_message(kSlotsKind, [this](Rank from, std::span<const std::byte> payload) {
    if (from < layout_.servers) slots_[from] = read_message<SlotsMessage>(payload);
  });
  comm_.on_message(kAnswerKind, [this](Rank, std::span<const std::byte> payload) {
    answer_ = read_message<AnswerMessage>(payload);
  });
  comm_.on_message(kCancelKind, [this](Rank, std::span<const std::byte> payload) {
    if (read_message<int64_t>(payload) == current_seq_) cancelled_ = true;
  });
  comm_.on_message(kTestTaskKind, [this](Rank, std::span<const std::byte> payload) {
    test_ = read_message<TestTaskMessage>(payload);
  });
  comm_.on_message(
      kStopKind, [this](Rank, std::span<const std::byte>) { stop_ = cancelled_ = ended_ = true; });
  comm_.on_put(kWeightsKind, [this](Rank, uint32_t, uint64_t bytes) { weight_bytes_ += bytes; });
  comm_.on_put(kTestWeightsKind, [this](Rank, uint32_t, uint64_t bytes) { test_bytes_ += bytes; });
  lost_handler_ = comm_.on_peer_lost([this](Rank peer, const std::string&) {
    if (peer < layout_.servers) cancelled_ = ended_ = true;
  });
}

// In a slot the buffers follow the slice in the same way.
std::span<float> WorkerLink::gradients() const {
  if (lent_.slots == nullptr) return {reinterpret_cast<float*>(memory_->data()), layout_.floats};
  const size_t offset = static_cast<size_t>(current_.slot) * slots_[0]->slot_floats;
  return {reinterpret_cast<float*>(lent_.slots.get()) + offset, layout_.floats};
}

std::span<float> WorkerLink::pushed_buffers() const {
  return {gradients().data() + SyncLayout::padded(layout_.floats), layout_.buffers};
}

std::span<float> WorkerLink::weights(int copy) const {
  float* base = reinterpret_cast<float*>(memory_->data());
  return {base + static_cast<size_t>(1 + copy) * layout_.copy_floats(), layout_.floats};
}

std::span<float> WorkerLink::buffers(int copy) const {
  return {weights(copy).data() + SyncLayout::padded(layout_.floats), layout_.buffers};
}

size_t WorkerLink::encoded_floats(int server) const {
  return SyncLayout::padded(options_.encoded_bytes[server] / sizeof(float));
}

std::span<std::byte> WorkerLink::encoded(int server) const {
  size_t floats = (1 + kCopies) * layout_.copy_floats();
  for (int s = 0; s < server; ++s) floats += encoded_floats(s);
  return {memory_->data() + floats * sizeof(float), options_.encoded_bytes[server]};
}

// The lead hears of this worker last: when it answers, the other servers know the way already.
void WorkerLink::join() {
  for (Rank server = layout_.servers - 1; server >= 0; --server) {
    HelloMessage hello;
    hello.floats = layout_.floats;
    hello.buffers = layout_.buffers;
    hello.memory = comm_.key_for(*region_, server);
    const bool shares = comm_.capabilities(server).shares_peer_memory;
    hello.lend_slots = options_.lend_slots && shares ? 1 : 0;
    hello.lend_weights = options_.lend_weights && shares ? 1 : 0;
    comm_.send(server, kHelloKind, bytes_of(hello));
    comm_.wait_until(
        [&] { return slots_[server].has_value() || comm_.state(server) != PeerState::kAlive; },
        options_.timeout, fmt::format("server {} to answer", server));
    if (!slots_[server]) fail_runtime("a server is lost: {}", comm_.first_loss());
  }
  if (slots_[0]->lend_slots == 0) return;
  comm_.wait_until(
      [this] {
        lent_.slots = comm_.share_peer_memory(0, slots_[0]->region);
        return lent_.slots != nullptr || comm_.state(0) != PeerState::kAlive;
      },
      options_.timeout, "the memory of server 0");
  if (lent_.slots == nullptr) fail_runtime("a server is lost: {}", comm_.first_loss());
}

float* WorkerLink::arrived(const RemoteRegion& region, uint64_t put, int copy) {
  if (slots_[0]->lend_weights == 0) {
    const bool whole = put == (layout_.floats + layout_.buffers) * sizeof(float);
    return whole ? weights(copy).data() : nullptr;
  }
  if (region.bytes == 0) return nullptr;  // it was meant for the worker before this one
  std::shared_ptr<std::byte> there = comm_.share_peer_memory(0, region);
  if (there == nullptr) return nullptr;
  lent_.weights = std::move(there);
  auto* published = reinterpret_cast<float*>(lent_.weights.get());
  std::copy_n(published + SyncLayout::padded(layout_.floats), layout_.buffers,
              buffers(copy).data());
  return published;
}

// Under the lock.
std::string WorkerLink::lost_server() const {
  for (Rank r = 0; r < layout_.servers; ++r) {
    if (comm_.state(r) == PeerState::kLost) {
      return fmt::format("{} ({})", comm_.name(r), comm_.why_lost(r));
    }
    if (comm_.state(r) == PeerState::kLeft) {
      const std::string why = comm_.why_left(r);
      return fmt::format("{} ({})", comm_.name(r), why.empty() ? "it has left the run" : why);
    }
  }
  return "";
}

WorkerLink::Order WorkerLink::wait(const std::function<bool()>& interrupted) {
  Order order;
  std::string lost;
  const double begin = comm_.now();
  const auto look = [&] {
    using Kind = Order::Kind;
    if (stop_) {
      order.kind = Kind::kStop;
    } else if (lost = lost_server(); !lost.empty()) {
      return true;
    } else if (float* tested = test_ ? arrived(test_->weights, test_bytes_, kTestCopy) : nullptr) {
      order.kind = Kind::kTest;
      order.weights = {tested, layout_.floats};
      order.buffers = buffers(kTestCopy);
      order.test = *test_;
      test_.reset();
      test_bytes_ = 0;
    } else if (float* at =
                   answer_ ? arrived(answer_->weights, weight_bytes_, answer_->buffer) : nullptr) {
      order.kind = Kind::kCompute;
      order.weights = {at, layout_.floats};
      order.buffers = buffers(answer_->buffer);
      order.answer = current_ = *answer_;
      current_seq_ = answer_->seq;
      cancelled_ = false;
      answer_.reset();
      weight_bytes_ = 0;
    } else {
      return interrupted();
    }
    return true;
  };
  comm_.wait_until(look, options_.timeout, "new weights from the servers");
  waiting_ += comm_.now() - begin;
  owner_ = std::make_shared<Lent>(lent_);
  if (lost.empty()) return order;
  // To a rank that was declared lost all others are gone; it hears why a moment later.
  comm_.sleep_until(comm_.now() + 1, [this] { return !comm_.declared_lost().empty(); });
  const std::string self = comm_.declared_lost();
  if (!self.empty()) fail_runtime("{}", self);
  fail_runtime(
      "a server is lost: {}\n  the run cannot go on; a snapshot that it wrote can be gone "
      "on with: --resume",
      lost);
}

void WorkerLink::begin_push(const AnswerMessage& answer) {
  current_ = answer;
  pending_from_ = pending_to_ = 0;
}

// Backward goes from the last layer to the first, so pieces mostly come in descending order.
void WorkerLink::push(size_t from, size_t to) {
  if (from == to || lent_.slots != nullptr) return;
  if (to == pending_from_ && pending_to_ > 0) {
    pending_from_ = from;
  } else {
    post(pending_from_, pending_to_);
    pending_from_ = from;
    pending_to_ = to;
  }
  if ((pending_to_ - pending_from_) * sizeof(float) >= options_.bucket_bytes) {
    post(pending_from_, pending_to_);
    pending_from_ = pending_to_ = 0;
  }
}

void WorkerLink::post(size_t from, size_t to) {
  for (int s = 0; s < layout_.servers; ++s) {
    const size_t begin = std::max(from, layout_.begin(s)), end = std::min(to, layout_.end(s));
    for (const auto& [first, last] : layout_.pieces(begin, std::max(begin, end))) {
      post_to(s, first, first - layout_.begin(s), last - first);
    }
  }
}

void WorkerLink::push_encoded(int server, size_t bytes) {
  const auto from = static_cast<size_t>(encoded(server).data() - memory_->data());
  post_to(server, from / sizeof(float), 0, bytes / sizeof(float));
}

// In floats: from the region's start, into the slot, and how many.
void WorkerLink::post_to(int server, uint64_t from, uint64_t to_offset, uint64_t floats) {
  const SlotsMessage& slots = *slots_[server];
  RegionPut put;
  put.from = region_.get();
  put.from_offset = from * sizeof(float);
  put.to = slots.region;
  put.to_offset =
      (static_cast<uint64_t>(current_.slot) * slots.slot_floats + to_offset) * sizeof(float);
  put.bytes = floats * sizeof(float);
  put.kind = kPieceKind;
  put.tag = put_tag(current_.seq);
  put.flush = true;
  tickets_[server] = queue_.post(server, put);
  pushed_bytes_ += put.bytes;
  ++pushes_;
}

void WorkerLink::finish_push(GradientMessage header) {
  post(pending_from_, pending_to_);
  pending_from_ = pending_to_ = 0;
  header.in_slot = lent_.slots != nullptr ? 1 : 0;
  if (layout_.buffers > 0 && header.in_slot == 0) {
    const size_t pushed = options_.encoded_bytes.empty()
                              ? SyncLayout::padded(layout_.end(0) - layout_.begin(0))
                              : encoded_floats(0);
    post_to(0, SyncLayout::padded(layout_.floats), pushed, layout_.buffers);
  }
  grant_ = 1 - current_.buffer;
  header.seq = current_.seq;
  header.version = current_.version;
  header.batch = current_.batch;
  header.buffer = grant_;
  header.waiting_seconds = take_waiting();
  comm_.locked([this] { current_seq_ = -1; });
  comm_.send(0, kGradientKind, bytes_of(header));
}

void WorkerLink::give_up() {
  GradientMessage header;
  header.outcome = Outcome::kCancelled;
  header.seq = current_.seq;
  header.version = current_.version;
  header.batch = current_.batch;
  header.steps = current_.steps;
  header.buffer = grant_ = 1 - current_.buffer;
  header.waiting_seconds = take_waiting();
  comm_.locked([this] { current_seq_ = -1; });
  comm_.send(0, kGradientKind, bytes_of(header));
}

void WorkerLink::wait_sent() {
  comm_.wait_until(
      [this] {
        for (Rank r = 0; r < layout_.servers; ++r) {
          if (comm_.state(r) == PeerState::kAlive && !queue_.done(r, tickets_[r])) return false;
        }
        return true;
      },
      options_.timeout, "the gradient to leave");
}

void WorkerLink::pause(double seconds) {
  if (seconds > 0) comm_.sleep_until(comm_.now() + seconds, [this] { return cancelled(); });
}

void WorkerLink::send_test_sums(const TestTaskMessage& task, std::span<const double> sums) {
  send_parts(comm_, 0, kTestSumsKind, static_cast<uint32_t>(task.number), std::as_bytes(sums));
}

void WorkerLink::wish(const WishMessage& wish) { comm_.send(0, kWishKind, bytes_of(wish)); }

void WorkerLink::say_bye() { comm_.send(0, kByeKind, {}); }

double WorkerLink::take_waiting() { return std::exchange(waiting_, 0.0); }

}  // namespace kinet
