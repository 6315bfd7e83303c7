#include "src/sync/bsp.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr uint8_t kFinishedKind = kSyncKind;    // message: this worker needs nothing any more
constexpr uint8_t kSharesKind = kSyncKind + 1;  // messages: sums of a test
constexpr size_t kFloatsPerLine = 16;
constexpr int kSlowPhase = 20;  // a test or snapshot may take so many times stall_timeout

// Places in the tail behind the gradients.
enum Tail : size_t { kLoss, kMultiplier, kStop, kStopNow, kSnapshot, kNotFinite };

size_t round_up(size_t floats) {
  return (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

size_t tail_floats(int workers) { return round_up(kNotFinite + static_cast<size_t>(workers)); }

// A word travels as four floats of 16 bits: added to zeros, each is exact.
constexpr size_t kFloatsPerWord = 4;
constexpr int kBitsPerFloat = 16;
size_t state_floats(int workers, size_t words) {
  return round_up(static_cast<size_t>(workers) * words * kFloatsPerWord);
}

}  // namespace

// Layout of the region in floats: gradients, padded | tail | states | buffers, padded.
Bsp::Bsp(Communicator& comm, size_t gradients, size_t buffers, const BspOptions& options)
    : comm_(comm),
      arena_(gradients),
      gradients_(round_up(gradients)),
      buffers_(buffers),
      options_(options),
      exchange_(comm, kSharesKind),
      finished_(comm.size(), false) {
  const size_t floats = gradients_ + tail_floats(comm.size()) +
                        state_floats(comm.size(), kMostStateWords) + round_up(buffers);
  memory_ = std::make_shared<SharedMemory>(floats * sizeof(float), "kinet gradients");
  region_ = comm.adopt({memory_->data(), memory_->bytes(), memory_->fd()});
  comm_.on_message(kFinishedKind,
                   [this](Rank from, std::span<const std::byte>) { finished_[from] = true; });
  collectives_ = std::make_unique<Collectives>(comm_, *region_, CollectiveOptions{});
  begin_buckets();
}

void Bsp::gradients_final(size_t from, size_t to) {
  if (!overlaps() || from == to) return;
  finals_[to] = from;
  for (auto next = finals_.find(final_from_); next != finals_.end();
       next = finals_.find(final_from_)) {
    final_from_ = next->second;
    finals_.erase(next);
  }
  start_buckets();
  tell_summed();
}

// Sums are finished in the order in which they were begun.
void Bsp::tell_summed() {
  for (; told_ < buckets_.size() && collectives_->done(buckets_[told_].ticket); ++told_) {
    const Bucket& bucket = buckets_[told_];
    if (summed_ && bucket.from < bucket.to) summed_(bucket.from, bucket.to);
  }
}

void Bsp::start_buckets() {
  const size_t bucket = round_up(options_.bucket_bytes / sizeof(float));
  while (started_from_ > 0) {
    const size_t begin = started_from_ > bucket ? started_from_ - bucket : 0;
    if (begin < final_from_) return;
    buckets_.push_back({collectives_->all_reduce(begin, started_from_ - begin), begin,
                        std::min(started_from_, arena_)});
    started_from_ = begin;
  }
}

Bsp::~Bsp() { comm_.on_message(kFinishedKind, nullptr); }

std::span<float> Bsp::gradients() const {
  return {reinterpret_cast<float*>(memory_->data()), gradients_};
}

float* Bsp::tail() const { return reinterpret_cast<float*>(memory_->data()) + gradients_; }

float* Bsp::states() const { return tail() + tail_floats(workers()); }

void Bsp::put_state(const std::vector<uint64_t>& words) {
  std::fill_n(states(), state_floats(workers(), words.size()), 0.0F);
  float* place = states() + static_cast<size_t>(rank()) * words.size() * kFloatsPerWord;
  for (const uint64_t word : words) {
    for (size_t part = 0; part < kFloatsPerWord; ++part) {
      *place++ = static_cast<float>(word >> (part * kBitsPerFloat) & 0xFFFF);
    }
  }
}

std::vector<uint64_t> Bsp::state_of(Rank rank, size_t words) const {
  std::vector<uint64_t> out(words);
  const float* place = states() + static_cast<size_t>(rank) * words * kFloatsPerWord;
  for (uint64_t& word : out) {
    for (size_t part = 0; part < kFloatsPerWord; ++part) {
      word |= static_cast<uint64_t>(*place++) << (part * kBitsPerFloat);
    }
  }
  return out;
}

bool Bsp::reduce(const WorkerStep& step, const std::atomic<bool>* interrupted, GlobalStep& global) {
  KINET_DCHECK(step.state.size() <= kMostStateWords);
  const size_t words = step.state.size();
  const size_t tail_size = tail_floats(workers()) + state_floats(workers(), words);
  float* t = tail();
  std::fill_n(t, tail_floats(workers()), 0.0F);
  put_state(step.state);
  t[kLoss] = step.finite ? static_cast<float>(step.loss) : 0.0F;
  t[kMultiplier] = static_cast<float>(step.multiplier);
  t[kStop] = step.stop ? 1.0F : 0.0F;
  t[kStopNow] = step.stop_now ? 1.0F : 0.0F;
  t[kSnapshot] = step.snapshot ? 1.0F : 0.0F;
  t[kNotFinite + static_cast<size_t>(rank())] = step.finite ? 0.0F : 1.0F;
  if (!sum_rest(tail_size, interrupted)) return false;
  ++step_;
  global.loss = t[kLoss] / static_cast<double>(workers());
  global.multiplier = t[kMultiplier] / static_cast<double>(workers());
  global.stop = t[kStop] > 0;
  global.stop_now = t[kStopNow] > 0;
  global.snapshot = t[kSnapshot] > 0;
  global.not_finite.clear();
  global.states.clear();
  for (Rank r = 0; r < workers(); ++r) {
    global.states.push_back(state_of(r, words));
    if (t[kNotFinite + static_cast<size_t>(r)] > 0) global.not_finite.push_back(r);
  }
  return true;
}

// What backward has not handed over, and the tail. false: interrupted.
bool Bsp::sum_rest(size_t tail_size, const std::atomic<bool>* interrupted) {
  if (overlaps()) {
    final_from_ = 0;
    start_buckets();
    buckets_.push_back({collectives_->all_reduce(gradients_, tail_size), 0, 0});
  } else {
    buckets_.push_back({collectives_->all_reduce(0, gradients_ + tail_size), 0, arena_});
  }
  for (const Bucket& bucket : buckets_) {
    wait(bucket.ticket, fmt::format("the gradients of iteration {}", step_), interrupted);
    if (!collectives_->done(bucket.ticket)) return false;
    tell_summed();
  }
  begin_buckets();
  return true;
}

void Bsp::begin_buckets() {
  buckets_.clear();
  told_ = 0;
  finals_.clear();
  started_from_ = gradients_;
  final_from_ = arena_;
}

// Virtual time passes at once; in real time the user may be in a hurry.
void Bsp::pause(double seconds, const std::atomic<bool>* interrupted) {
  constexpr double kLook = 0.1;  // seconds
  if (seconds <= 0) return;
  const double end = comm_.now() + seconds;
  if (comm_.virtual_time()) return comm_.sleep_until(end);
  while (comm_.now() < end && (interrupted == nullptr || !*interrupted)) {
    comm_.sleep_until(std::min(end, comm_.now() + kLook));
  }
}

void Bsp::average(std::span<float> buffers) {
  KINET_DCHECK(buffers.size() == buffers_);
  if (buffers.empty()) return;
  float* place = states() + state_floats(workers(), kMostStateWords);
  std::copy(buffers.begin(), buffers.end(), place);
  const auto ticket = collectives_->all_reduce(
      static_cast<size_t>(place - reinterpret_cast<float*>(memory_->data())), buffers.size());
  wait(ticket, "the batch-norm statistics of all workers", nullptr);
  const auto workers_float = static_cast<float>(workers());
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i] = place[i] / workers_float;
}

void Bsp::wait(Ticket ticket, const std::string& what, const std::atomic<bool>* interrupted) {
  const double begin = comm_.now();
  comm_.wait_until(
      [&] { return collectives_->done(ticket) || (interrupted != nullptr && *interrupted); },
      options_.timeout, what);
  waiting_ += comm_.now() - begin;
}

double Bsp::take_waiting() { return std::exchange(waiting_, 0.0); }

// The wish stands before the sums: 0 none, 1 to stop, 2 to stop now.
bool Bsp::share_test(const TestSay& mine, const std::atomic<bool>* interrupted,
                     std::vector<TestSay>& all) {
  std::vector<double> numbers = {mine.stop_now ? 2.0 : mine.stop ? 1.0 : 0.0};
  numbers.insert(numbers.end(), mine.sums.begin(), mine.sums.end());
  exchange_.begin(numbers);
  const auto by_rank = exchange_.finish(options_.timeout, "the test of all workers", interrupted);
  all.clear();
  for (const std::vector<double>& said : by_rank) {
    KINET_CHECK(!said.empty(), "a worker says nothing about a test");
    all.push_back({said[0] >= 1, said[0] >= 2, {said.begin() + 1, said.end()}});
  }
  return !all.empty();
}

bool Bsp::others_stop_test() {
  return exchange_.any(
      [](const NumberExchange::Numbers& said) { return !said.empty() && said[0] > 0; });
}

// A worker that has left needs nothing either: it left only after all had come to the end.
void Bsp::finish() {
  for (Rank r = 0; r < workers(); ++r) {
    if (r != rank()) comm_.send(r, kFinishedKind, {});
  }
  comm_.wait_until(
      [this] {
        for (Rank r = 0; r < workers(); ++r) {
          if (r != rank() && !finished_[r] && comm_.state(r) == PeerState::kAlive) return false;
        }
        return true;
      },
      options_.timeout, "all workers to come to the end");
}

Rank Bsp::writer() {
  comm_.progress();  // a rank that wakes up learns here that it was declared lost
  if (!comm_.declared_lost().empty()) return -1;
  Rank r = 0;
  while (r < rank() && comm_.state(r) == PeerState::kLost) ++r;
  return r;
}

void Bsp::note(int64_t iteration, const std::string& phase, bool slow) {
  comm_.note_progress(static_cast<uint64_t>(iteration) + 1, phase, slow ? kSlowPhase : 1);
}

}  // namespace kinet
