// Two ranks over the verbs transport, both driven by the thread of the test: rank 0 on the first
// device, rank 1 on the second. And one rank alone, whose peer is another process.
// Waiting polls a few times, then naps: pollers would starve the kernel's own work.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/transport.h"
#include "src/base/check.h"
#include "src/base/shared_memory.h"

namespace kinet {

inline constexpr double kRdmaPatience = 60;  // seconds; ten times what is ever needed

inline double test_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void nap() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

// Counts events; allocates only while it is told to keep messages.
struct EventLog : EventSink {
  int connected = 0, lost = 0, after_loss = 0;
  uint64_t messages = 0, arrived = 0, arrived_bytes = 0, completed = 0;
  uint32_t last_notify = 0;
  std::string why;
  std::function<void(std::span<const std::byte>)> when_message;
  std::function<void(uint32_t, uint64_t)> when_arrived;

  void on_connected(Rank) override { ++connected; }
  void on_message(Rank, std::span<const std::byte> message) override {
    ++messages;
    after_loss += lost;
    if (when_message) when_message(message);
  }
  void on_put_arrived(Rank, uint32_t notify, uint64_t bytes) override {
    ++arrived;
    arrived_bytes += bytes;
    last_notify = notify;
    after_loss += lost;
    if (when_arrived) when_arrived(notify, bytes);
  }
  void on_puts_completed(Rank, uint64_t count) override {
    completed += count;
    after_loss += lost;
  }
  void on_peer_lost(Rank, const std::string& text) override {
    ++lost;
    why = text;
  }
};

// comm_param { verbs { ... } } from its text; kept as long as the transport may look at it.
class VerbsParams {
 public:
  explicit VerbsParams(const std::string& text) {
    const TransportType* type = TransportRegistry::instance().find("verbs");
    KINET_CHECK(type != nullptr, "this build has no verbs transport");
    Diagnostics diagnostics;
    node_ = std::make_unique<ParamNode>(parse_prototxt(text, "test", diagnostics));
    validate(*node_, *type->fields, "verbs", diagnostics);
    diagnostics.throw_if_any();
  }
  std::unique_ptr<Transport> make(Rank rank, uint32_t incarnation = 0,
                                  const std::string& token = "token of the run",
                                  double timeout = 30) const {
    const TransportType* type = TransportRegistry::instance().find("verbs");
    TransportConfig config;
    config.rank = config.local_rank = rank;
    config.size = 2;
    config.incarnation = incarnation;
    config.token = token;
    config.timeout = timeout;
    config.params = Params(node_.get(), type->fields);
    return type->make(config);
  }

 private:
  std::unique_ptr<ParamNode> node_;
};

class TestMemory {
 public:
  TestMemory(Transport& transport, size_t bytes) : memory_(bytes, "rdma test") {
    region_ = transport.register_memory({memory_.data(), memory_.bytes(), memory_.fd()});
  }
  std::byte* data() { return memory_.data(); }
  size_t bytes() const { return memory_.bytes(); }
  const MemoryRegion& region() const { return *region_; }

  void fill(uint32_t seed) {
    for (size_t i = 0; i < bytes(); ++i) data()[i] = pattern(seed, i);
  }
  static std::byte pattern(uint32_t seed, size_t i) {
    return static_cast<std::byte>((i * 2654435761U + seed * 40503U) >> 13);
  }

 private:
  SharedMemory memory_;
  std::unique_ptr<MemoryRegion> region_;
};

struct VerbsPair {
  explicit VerbsPair(const std::string& knobs = "", const std::string& token_of_1 = "",
                     double timeout = 30)
      : params(knobs) {
    ranks[0] = params.make(0, 0, "token of the run", timeout);
    ranks[1] = params.make(1, 0, token_of_1.empty() ? "token of the run" : token_of_1, timeout);
  }

  void offer_and_connect() {
    const std::string from_0 = ranks[0]->offer(1), from_1 = ranks[1]->offer(0);
    ranks[0]->connect(1, 0, from_1);
    ranks[1]->connect(0, 0, from_0);
  }
  void connect() {
    offer_and_connect();
    until("both ends up", [&] { return logs[0].connected > 0 && logs[1].connected > 0; });
  }
  int poll() { return ranks[0]->poll(logs[0]) + ranks[1]->poll(logs[1]); }

  // Fails the test and throws when it takes too long.
  void until(const std::string& what, const std::function<bool()>& done,
             double seconds = kRdmaPatience) {
    const double deadline = test_now() + seconds;
    for (int quiet = 0; !done();) {
      quiet = poll() > 0 ? 0 : quiet + 1;
      if (quiet > 20) nap();
      if (test_now() < deadline) continue;
      for (int r : {0, 1}) {
        ADD_FAILURE() << "rank " << r << " waits for " << what << ": connected "
                      << logs[r].connected << ", lost " << logs[r].lost << " " << logs[r].why
                      << ", messages " << logs[r].messages << ", arrived " << logs[r].arrived
                      << ", completed " << logs[r].completed;
      }
      fail_runtime("no {} within {} s", what, seconds);
    }
  }
  void send(Rank from, std::span<const std::byte> message) {
    until("room", [&] { return ranks[from]->send(1 - from, message) == Post::kAccepted; });
  }
  void put(Rank from, const Put& put) {
    until("room", [&] { return ranks[from]->put(1 - from, put) == Post::kAccepted; });
  }

  VerbsParams params;
  std::array<EventLog, 2> logs;
  std::array<std::unique_ptr<Transport>, 2> ranks;
};

inline Put make_put(const TestMemory& from, size_t from_offset, const TestMemory& to,
                    size_t to_offset, size_t bytes, uint32_t notify, bool flush) {
  return {&from.region(), from_offset, to.region().remote(), to_offset, bytes, notify, flush};
}

}  // namespace kinet
