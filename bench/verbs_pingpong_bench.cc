// Latency and bandwidth of the verbs transport between two processes, and the latency of the least
// that verbs can do, for bench/verbs_ratio.py.
//
// usage: verbs_pingpong_bench minimal|kinet|bandwidth|bandwidth_idle [ITERATIONS [BYTES [DEVICE
// DEVICE]]] Prints: latency "t_min t_typical t_avg" in microseconds, one way; bandwidth of three
// streams, one after another, in MB/s (10^6 bytes). The target of `bandwidth` sleeps and is woken
// by every put; that of `bandwidth_idle` looks every 20 ms, as one that computes meanwhile: the
// target of ib_write_bw does not even know of the writes.
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/verbs_minimal.h"
#include "comm/transport.h"
#include "src/base/shared_memory.h"

namespace kinet::bench {
namespace {

constexpr int kWarmUp = 50;
constexpr int kSpin = 20;  // polls
constexpr int kStreams = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A line from and to the other process.
struct Line {
  int fd;
  void tell(const std::string& text) const {
    const std::string line = text + "\n";
    if (write(fd, line.data(), line.size()) < 0) throw std::runtime_error("the peer is gone");
  }
  std::string hear() const {
    std::string line;
    for (char c = 0; read(fd, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
};

struct Sink : EventSink {
  uint64_t arrived = 0, completed = 0;
  bool up = false;
  void on_connected(Rank) override { up = true; }
  void on_message(Rank, std::span<const std::byte>) override {}
  void on_put_arrived(Rank, uint32_t, uint64_t) override { ++arrived; }
  void on_puts_completed(Rank, uint64_t count) override { completed += count; }
  void on_peer_lost(Rank, const std::string& why) override { throw std::runtime_error(why); }
};

// One rank over the transport, with a region and the peer's.
class KinetEnd {
 public:
  KinetEnd(Rank rank, const std::string& device, size_t bytes, const Line& line)
      : peer_(1 - rank), memory_(bytes, "bench") {
    const TransportType* type = TransportRegistry::instance().find("verbs");
    if (type == nullptr) throw std::runtime_error("this build has no verbs transport");
    params_.add_string("devices", device);
    TransportConfig config;
    config.rank = rank;
    config.size = 2;
    config.params = Params(&params_, type->fields);
    transport_ = type->make(config);
    region_ = transport_->register_memory({memory_.data(), memory_.bytes(), memory_.fd()});
    line.tell(transport_->offer(peer_));
    transport_->connect(peer_, 0, line.hear());
    wait([&] { return sink_.up; });
    const RemoteRegion mine = region_->remote();
    line.tell(std::to_string(mine.address) + " " + std::to_string(mine.key));
    there_.bytes = bytes;
    if (std::sscanf(line.hear().c_str(), "%lu %lu", &there_.address, &there_.key) != 2) {
      throw std::runtime_error("no region of the peer");
    }
  }

  void ping_pong(bool first, uint64_t bytes) {
    if (first) put(bytes, false);
    ++seen_;
    wait([&] { return sink_.arrived >= seen_; });
    if (!first) put(bytes, false);
  }
  void put(uint64_t bytes, bool flush) {
    const Put put{region_.get(), 0, there_, 0, bytes, 0, flush};
    while (transport_->put(peer_, put) != Post::kAccepted) transport_->poll(sink_);
  }
  template <class Done>
  void wait(Done done) {
    while (!done()) transport_->poll(sink_);
  }
  template <class Done>
  void wait_idle(Done done) {
    while (!done()) {
      if (transport_->poll(sink_) == 0) usleep(20000);
    }
  }
  // As the communicator waits: a number of polls, then asleep.
  template <class Done>
  void wait_asleep(Done done) {
    for (int quiet = 0; !done();) {
      quiet = transport_->poll(sink_) > 0 ? 0 : quiet + 1;
      if (quiet < kSpin) continue;
      transport_->arm();
      if (transport_->poll(sink_) > 0) continue;
      pollfd news{transport_->event_fd(), POLLIN, 0};
      ::poll(&news, 1, 100);
      quiet = 0;
    }
  }
  Sink& sink() { return sink_; }

 private:
  Rank peer_;
  SharedMemory memory_;
  ParamNode params_;
  Sink sink_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<MemoryRegion> region_;
  RemoteRegion there_;
  uint64_t seen_ = 0;
};

void print_latencies(std::vector<double> round_trips) {
  std::sort(round_trips.begin(), round_trips.end());
  const double sum = std::accumulate(round_trips.begin(), round_trips.end(), 0.0);
  const double count = static_cast<double>(round_trips.size());
  std::printf("%.2f %.2f %.2f\n", round_trips.front() * 5e5,
              round_trips[round_trips.size() / 2] * 5e5, sum / count * 5e5);
}

// Both processes; the first one measures.
void latency(const std::function<void(bool)>& ping_pong, bool first, int iterations) {
  std::vector<double> times;
  times.reserve(iterations);
  for (int i = -kWarmUp; i < iterations; ++i) {
    const double start = now();
    ping_pong(first);
    if (i >= 0) times.push_back(now() - start);
  }
  if (first) print_latencies(std::move(times));
}

void bandwidth(KinetEnd& end, bool first, bool idle, int iterations, uint64_t bytes) {
  const uint64_t all = static_cast<uint64_t>(iterations) * kStreams + kWarmUp;
  if (!first) {
    const auto done = [&] { return end.sink().arrived == all; };
    idle ? end.wait_idle(done) : end.wait_asleep(done);
    return;
  }
  const auto stream = [&](int puts) {
    const uint64_t target = end.sink().completed + static_cast<uint64_t>(puts);
    const double start = now();
    for (int i = 0; i < puts; ++i) end.put(bytes, i + 1 == puts);
    end.wait([&] { return end.sink().completed == target; });
    return static_cast<double>(bytes) * puts / (now() - start) / 1e6;
  };
  stream(kWarmUp);
  for (int i = 0; i < kStreams; ++i) std::printf("%.2f ", stream(iterations));
  std::printf("\n");
}

struct Options {
  std::string mode = "kinet";
  int iterations = 1000;
  uint64_t bytes = 8;
  std::string devices[2] = {"rxe0", "rxe1"};
};

// Before either goes away.
void wait_for_both(const Line& line) {
  line.tell("done");
  line.hear();
}

void run(const Options& options, bool first, const Line& line) {
  const std::string& device = options.devices[first ? 0 : 1];
  const auto bytes = static_cast<uint32_t>(options.bytes);
  if (options.mode == "minimal") {
    MinimalPair pair(device);
    line.tell(pair.offer());
    pair.connect(line.hear());
    line.tell("ready");
    line.hear();
    latency([&](bool begin) { pair.ping_pong(begin, bytes); }, first, options.iterations);
    wait_for_both(line);
  } else {
    KinetEnd end(first ? 0 : 1, device, std::max<uint64_t>(options.bytes, 4096), line);
    if (options.mode.starts_with("bandwidth")) {
      const bool idle = options.mode == "bandwidth_idle";
      bandwidth(end, first, idle, options.iterations, options.bytes);
    } else {
      latency([&](bool begin) { end.ping_pong(begin, options.bytes); }, first, options.iterations);
    }
    wait_for_both(line);
  }
}

bool has_device(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  bool found = false;
  for (int i = 0; i < count; ++i) found = found || name == ibv_get_device_name(list[i]);
  if (list != nullptr) ibv_free_device_list(list);
  return found;
}

int run_both(const Options& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  const pid_t child = fork();
  const bool first = child != 0;
  close(ends[first ? 1 : 0]);
  alarm(120);
  int status = 0;
  try {
    run(options, first, Line{ends[first ? 0 : 1]});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", first ? 0 : 1, error.what());
    status = 1;
  }
  std::fflush(stdout);
  if (!first) _exit(status);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return status;
}

}  // namespace
}  // namespace kinet::bench

int main(int argc, char** argv) {
  kinet::bench::Options options;
  if (argc > 1) options.mode = argv[1];
  if (options.mode.starts_with("bandwidth")) options.bytes = 65536;
  if (argc > 2) options.iterations = std::atoi(argv[2]);
  if (argc > 3) options.bytes = std::strtoull(argv[3], nullptr, 10);
  if (argc > 5) {
    options.devices[0] = argv[4];
    options.devices[1] = argv[5];
  }
  if (!kinet::bench::has_device(options.devices[0])) {
    std::printf("skipped: no RDMA device %s; bench/verbs_ratio.py runs it in an emulated machine\n",
                options.devices[0].c_str());
    return 0;
  }
  return kinet::bench::run_both(options);
}
