// What `kinet bench comm` measures between ranks 0 and 1: ping-pong and streams, of puts or
// messages. Times are in seconds of the communicator's clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace kinet {

struct LatencyResult {
  std::vector<double> half_round_trips;  // sorted
};

struct BandwidthResult {
  double seconds = 0;                  // from the first post until the receiver had all
  double peak = 0;                     // bytes per second over the best `depth` operations in a row
  uint64_t bytes = 0, operations = 0;  // both directions together
};

// One of two ranks; both call the same methods in the same order.
class Traffic {
 public:
  Traffic(Communicator& comm, uint64_t most_bytes, int depth);
  ~Traffic();

  LatencyResult put_latency(uint64_t bytes, int iterations);
  LatencyResult message_latency(uint64_t bytes, int iterations);
  BandwidthResult put_bandwidth(uint64_t bytes, int iterations, bool both_ways);
  BandwidthResult message_bandwidth(uint64_t bytes, int iterations, bool both_ways);
  // Bytes that differ after a put, or a message, of a pattern in each direction.
  uint64_t wrong_of_put(uint64_t bytes);
  uint64_t wrong_of_message(uint64_t bytes);

 private:
  struct Received {
    uint64_t puts = 0, messages = 0, signals = 0;
    std::vector<std::byte> last_message;
  };

  void until(const char* what, uint64_t& counter, uint64_t value);
  void meet();  // both ranks are here
  void signal();
  void post(uint64_t bytes, bool flush);
  LatencyResult ping_pong(int iterations, const std::function<void()>& post, uint64_t& counter);
  BandwidthResult stream_result(double start, const std::vector<double>& posts,
                                const std::vector<double>& completions, uint64_t bytes,
                                int iterations, bool both_ways) const;

  Communicator& comm_;
  const Rank peer_;
  const int depth_;
  std::unique_ptr<Region> source_, target_;
  RemoteRegion there_;
  bool has_key_ = false;
  Received got_;
  uint64_t signals_due_ = 0;
};

}  // namespace kinet
