#include "src/cli/bench_traffic.h"

#include <algorithm>
#include <cstring>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kTimeout = 60;         // seconds of one wait
constexpr int kMessagesUnderWay = 256;  // then the receiver has to say that it has some
constexpr uint8_t kData = kBenchKind, kSignal = kBenchKind + 1, kKey = kBenchKind + 2;

std::byte pattern(Rank rank, uint64_t bytes, uint64_t i) {
  return static_cast<std::byte>((i * 131 + bytes * 7 + static_cast<uint64_t>(rank) * 89) >> 3);
}

}  // namespace

Traffic::Traffic(Communicator& comm, uint64_t most_bytes, int depth)
    : comm_(comm), peer_(1 - comm.rank()), depth_(depth) {
  source_ = comm.allocate(std::max<uint64_t>(most_bytes, 1), "bench source");
  target_ = comm.allocate(std::max<uint64_t>(most_bytes, 1), "bench target");
  comm.on_put(kData, [this](Rank, uint32_t, uint64_t) { ++got_.puts; });
  comm.on_message(kData, [this](Rank, std::span<const std::byte> payload) {
    ++got_.messages;
    got_.last_message.assign(payload.begin(), payload.end());
  });
  comm.on_message(kSignal, [this](Rank, std::span<const std::byte>) { ++got_.signals; });
  comm.on_message(kKey, [this](Rank, std::span<const std::byte> payload) {
    std::memcpy(&there_, payload.data(), std::min(payload.size(), sizeof(there_)));
    has_key_ = true;
  });
  const RemoteRegion key = comm.key_for(*target_, peer_);
  comm.send(peer_, kKey, std::as_bytes(std::span(&key, 1)));
  comm.wait_until([this] { return has_key_; }, kTimeout, "the peer's memory");
}

Traffic::~Traffic() {
  for (const uint8_t kind : {kData, kSignal, kKey}) comm_.on_message(kind, nullptr);
  comm_.on_put(kData, nullptr);
}

void Traffic::until(const char* what, uint64_t& counter, uint64_t value) {
  if (counter >= value) return;
  comm_.wait_until([&] { return counter >= value || comm_.state(peer_) != PeerState::kAlive; },
                   kTimeout, what);
  if (counter < value) fail_runtime("bench: waiting for {}: {} is gone", what, comm_.name(peer_));
}

void Traffic::signal() { comm_.send(peer_, kSignal, {}); }

void Traffic::meet() {
  signal();
  until("the other rank", got_.signals, ++signals_due_);
}

void Traffic::post(uint64_t bytes, bool flush) {
  RegionPut put;
  put.from = source_.get();
  put.to = there_;
  put.bytes = bytes;
  put.kind = kData;
  put.flush = flush;
  comm_.wait_until(
      [&] {
        const Post post = comm_.put(peer_, put);
        if (post == Post::kPeerLost) fail_runtime("bench: {} is gone", comm_.name(peer_));
        if (post == Post::kBusy) comm_.retry_soon();
        return post == Post::kAccepted;
      },
      kTimeout, "room for a put");
}

// ---- latency
// ----------------------------------------------------------------------------------------

LatencyResult Traffic::ping_pong(int iterations, const std::function<void()>& post,
                                 uint64_t& counter) {
  const int warm_up = std::max(iterations / 10, 5);
  LatencyResult out;
  out.half_round_trips.reserve(iterations);
  uint64_t due = counter;  // before the meeting: the other one may begin at once
  meet();
  for (int i = -warm_up; i < iterations; ++i) {
    const double start = comm_.now();
    if (comm_.rank() == 0) post();
    until("the answer", counter, ++due);
    if (comm_.rank() == 1) post();
    if (i >= 0) out.half_round_trips.push_back((comm_.now() - start) / 2);
  }
  std::sort(out.half_round_trips.begin(), out.half_round_trips.end());
  meet();
  return out;
}

LatencyResult Traffic::put_latency(uint64_t bytes, int iterations) {
  return ping_pong(
      iterations, [&] { post(bytes, false); }, got_.puts);
}

LatencyResult Traffic::message_latency(uint64_t bytes, int iterations) {
  const std::vector<std::byte> payload(bytes);
  return ping_pong(
      iterations, [&] { comm_.send(peer_, kData, payload); }, got_.messages);
}

// ---- bandwidth
// --------------------------------------------------------------------------------------

BandwidthResult Traffic::stream_result(double start, const std::vector<double>& posts,
                                       const std::vector<double>& completions, uint64_t bytes,
                                       int iterations, bool both_ways) const {
  BandwidthResult out;
  const uint64_t ways = both_ways ? 2 : 1;
  out.seconds = comm_.now() - start;
  out.operations = ways * static_cast<uint64_t>(iterations);
  out.bytes = out.operations * bytes;
  const auto stretch = static_cast<size_t>(std::min(iterations, depth_));
  for (size_t i = stretch; i <= completions.size(); ++i) {
    const double seconds = completions[i - 1] - posts[i - stretch];
    const auto moved = static_cast<double>(ways * stretch * bytes);
    if (seconds > 0) out.peak = std::max(out.peak, moved / seconds);
  }
  out.peak = std::max(out.peak, static_cast<double>(out.bytes) / out.seconds);
  return out;
}

// At most `depth` puts are under way. The receiver says when it has all.
BandwidthResult Traffic::put_bandwidth(uint64_t bytes, int iterations, bool both_ways) {
  const bool sends = comm_.rank() == 0 || both_ways, receives = comm_.rank() == 1 || both_ways;
  const uint64_t due = got_.puts + static_cast<uint64_t>(iterations);
  meet();
  const uint64_t base = comm_.puts_completed(peer_);
  std::vector<double> posts, completions;
  posts.reserve(iterations);
  completions.reserve(iterations);
  const auto note = [&] {
    const uint64_t done = comm_.puts_completed(peer_) - base;
    while (completions.size() < done) completions.push_back(comm_.now());
  };
  const double start = comm_.now();
  for (int i = 0; sends && i < iterations; ++i) {
    comm_.wait_until(
        [&] {
          note();
          return i - static_cast<int>(completions.size()) < depth_;
        },
        kTimeout, "completions");
    posts.push_back(comm_.now());
    post(bytes, depth_ < 32 || i + 1 == iterations);
  }
  if (sends) {
    comm_.wait_until(
        [&] {
          note();
          return completions.size() >= static_cast<size_t>(iterations);
        },
        kTimeout, "the last completions");
  }
  if (receives) {
    until("all puts", got_.puts, due);
    signal();
  }
  if (sends) until("the receiver", got_.signals, ++signals_due_);
  const BandwidthResult out =
      stream_result(start, posts, completions, bytes, iterations, both_ways);
  meet();
  return out;
}

BandwidthResult Traffic::message_bandwidth(uint64_t bytes, int iterations, bool both_ways) {
  const bool sends = comm_.rank() == 0 || both_ways, receives = comm_.rank() == 1 || both_ways;
  const std::vector<std::byte> payload(bytes);
  const uint64_t first = got_.messages;
  meet();
  const uint64_t first_signal = got_.signals;
  std::vector<double> sent;
  sent.reserve(iterations);
  uint64_t told = 0;  // a signal for each half of what may be under way
  constexpr uint64_t kEvery = kMessagesUnderWay / 2;
  const auto acknowledge = [&] {
    const uint64_t have = got_.messages - first;
    for (; receives && told < have / kEvery; ++told) signal();
  };
  const double start = comm_.now();
  for (int i = 0; sends && i < iterations; ++i) {
    comm_.wait_until(
        [&] {
          acknowledge();
          const uint64_t acknowledged = (got_.signals - first_signal) * kEvery;
          return static_cast<uint64_t>(i) < acknowledged + kMessagesUnderWay;
        },
        kTimeout, "acknowledgements");
    comm_.send(peer_, kData, payload);
    sent.push_back(comm_.now());
  }
  if (receives) {
    comm_.wait_until(
        [&] {
          acknowledge();
          return got_.messages - first >= static_cast<uint64_t>(iterations);
        },
        kTimeout, "all messages");
    signal();
  }
  const uint64_t signals = static_cast<uint64_t>(iterations) / kEvery + 1;
  if (sends) {
    until("the receiver", got_.signals, first_signal + signals);
    signals_due_ += signals;
  }
  const BandwidthResult out = stream_result(start, sent, sent, bytes, iterations, both_ways);
  meet();
  return out;
}

// ---- verification
// -----------------------------------------------------------------------------------

uint64_t Traffic::wrong_of_put(uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) source_->data()[i] = pattern(comm_.rank(), bytes, i);
  const uint64_t due = got_.puts + 1;
  meet();
  const uint64_t completed = comm_.puts_posted(peer_) + 1;
  post(bytes, true);
  until("the verified put", got_.puts, due);
  comm_.wait_until([&] { return comm_.puts_completed(peer_) >= completed; }, kTimeout,
                   "a completion");
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < bytes; ++i) {
    wrong += target_->data()[i] == pattern(peer_, bytes, i) ? 0 : 1;
  }
  meet();
  return wrong;
}

uint64_t Traffic::wrong_of_message(uint64_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (uint64_t i = 0; i < bytes; ++i) payload[i] = pattern(comm_.rank(), bytes, i);
  const uint64_t due = got_.messages + 1;
  meet();
  comm_.send(peer_, kData, payload);
  until("the verified message", got_.messages, due);
  uint64_t wrong = got_.last_message.size() == bytes ? 0 : 1;
  for (uint64_t i = 0; wrong == 0 && i < bytes; ++i) {
    wrong += got_.last_message[i] == pattern(peer_, bytes, i) ? 0 : 1;
  }
  meet();
  return wrong;
}

}  // namespace kinet
