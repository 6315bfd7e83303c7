// Ranks of transport shm for tests: what was raised, written down, and pairs that are linked.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace kinet {

inline constexpr double kTestLimit = 20;  // seconds that anything may take

struct ShmEvents : EventSink {
  void on_connected(Rank peer) override { connected.push_back(peer); }
  void on_message(Rank, std::span<const std::byte> m) override {
    messages.emplace_back(reinterpret_cast<const char*>(m.data()), m.size());
  }
  void on_put_arrived(Rank, uint32_t notify, uint64_t bytes) override {
    puts.emplace_back(notify, bytes);
  }
  void on_puts_completed(Rank, uint64_t count) override { completed += count; }
  void on_peer_lost(Rank peer, const std::string& why) override { lost.emplace_back(peer, why); }

  std::vector<Rank> connected;
  std::vector<std::string> messages;
  std::vector<std::pair<uint32_t, uint64_t>> puts;
  uint64_t completed = 0;
  std::vector<std::pair<Rank, std::string>> lost;
};

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline TransportConfig shm_config(Rank rank, int size, uint32_t incarnation = 0) {
  TransportConfig config;
  config.rank = rank;
  config.size = size;
  config.incarnation = incarnation;
  config.token = "token of the run";
  config.timeout = kTestLimit;
  return config;
}

inline std::unique_ptr<Transport> make_shm(const TransportConfig& config) {
  return TransportRegistry::instance().find("shm")->make(config);
}

inline bool wait_until(const std::function<bool()>& done, double seconds = kTestLimit) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// Rank 0 and rank 1, both of this thread.
struct ShmPair {
  explicit ShmPair(const TransportConfig& a = shm_config(0, 2),
                   const TransportConfig& b = shm_config(1, 2))
      : first(make_shm(a)), second(make_shm(b)) {
    first->connect(1, b.incarnation, second->offer(0));
    second->connect(0, a.incarnation, first->offer(1));
    up = until([&] { return !at_first.connected.empty() && !at_second.connected.empty(); });
  }
  void poll() {
    first->poll(at_first);
    second->poll(at_second);
  }
  bool until(const std::function<bool()>& done) {
    return wait_until([&] {
      poll();
      return done();
    });
  }

  std::unique_ptr<Transport> first, second;
  ShmEvents at_first, at_second;
  bool up = false;
};

}  // namespace kinet
