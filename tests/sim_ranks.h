// Ranks of a virtual network for tests of transport sim: bare transports, driven from one thread,
// that write down what happened and when.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "comm/transports/sim.h"

namespace kinet {

inline constexpr double kForever = std::numeric_limits<double>::infinity();

struct SimSeen {  // an event, with the virtual time at which it was raised
  std::string what;
  Rank peer = 0;
  double time = 0;
  uint64_t number = 0;  // notify value, first byte of a message, puts completed
};

class SimRank : public EventSink {
 public:
  SimRank(const std::shared_ptr<SimWorld>& world, Rank rank, int size, uint32_t incarnation = 0)
      : memory(1 << 20) {
    TransportConfig config;
    config.rank = rank;
    config.size = size;
    config.incarnation = incarnation;
    config.runtime.sim = world;
    transport = TransportRegistry::instance().find("sim")->make(config);
    region = transport->register_memory({memory.data(), memory.size(), -1});
  }

  Post put(Rank to, const SimRank& target, uint64_t bytes, uint32_t notify) {
    Put put;
    put.from = region.get();
    put.to = target.region->remote();
    put.bytes = bytes;
    put.notify = notify;
    return transport->put(to, put);
  }
  Post send(Rank to, size_t bytes, int first) {
    std::vector<std::byte> message(bytes);
    if (bytes > 0) message[0] = static_cast<std::byte>(first);
    return transport->send(to, message);
  }

  std::vector<SimSeen> of(const std::string& what) const {
    std::vector<SimSeen> out;
    for (const SimSeen& s : seen) {
      if (s.what == what) out.push_back(s);
    }
    return out;
  }

  void on_connected(Rank peer) override { note("connected", peer, 0); }
  void on_message(Rank from, std::span<const std::byte> message) override {
    note("message", from, message.empty() ? 0 : std::to_integer<uint64_t>(message[0]));
  }
  void on_put_arrived(Rank from, uint32_t notify, uint64_t) override { note("put", from, notify); }
  void on_puts_completed(Rank to, uint64_t count) override { note("completed", to, count); }
  void on_peer_lost(Rank peer, const std::string& why) override {
    note("lost", peer, 0);
    last_why = why;
  }

  std::vector<std::byte> memory;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<MemoryRegion> region;  // destroyed first
  std::vector<SimSeen> seen;
  std::string last_why;

 private:
  void note(const std::string& what, Rank peer, uint64_t number) {
    const double time = transport->now();
    EXPECT_GE(time, seen.empty() ? 0 : seen.back().time) << "time went back";
    seen.push_back({what, peer, time, number});
  }
};

class SimRanks {
 public:
  SimRanks(int size, const SimOptions& options)
      : world(std::make_shared<SimWorld>(size, with_trace(options))) {
    for (Rank r = 0; r < size; ++r) ranks.push_back(std::make_unique<SimRank>(world, r, size));
    for (Rank r = 0; r < size; ++r) {
      for (Rank peer = 0; peer < size; ++peer) {
        if (peer != r) ranks[r]->transport->connect(peer, 0, ranks[peer]->transport->offer(r));
      }
    }
    poll();
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank->of("connected").size(), static_cast<size_t>(size - 1));
      rank->seen.clear();
    }
  }

  SimRank& operator[](Rank r) { return *ranks[r]; }

  int poll() {
    int events = 0;
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r] && !world->killed(static_cast<Rank>(r))) {
        events += ranks[r]->transport->poll(*ranks[r]);
      }
    }
    return events;
  }
  // Until nothing is going to happen before `until`.
  void run(double until = kForever) {
    do {
      while (poll() > 0) {
      }
    } while (world->step(until));
    poll();
  }

  std::shared_ptr<SimWorld> world;
  std::vector<std::unique_ptr<SimRank>> ranks;
  std::string trace;

 private:
  SimOptions with_trace(SimOptions options) {
    options.trace = [this](const std::string& line) { trace += line + "\n"; };
    return options;
  }
};

// 2 us, 1 GB/s, 0.5 us a transmission: round figures for the formula.
inline SimOptions round_figures() {
  SimOptions o;
  o.link.network = {2e-6, 1e9, 5e-7};
  return o;
}

}  // namespace kinet
