// How to use a transport without the communicator: two ranks, threads of this process, that connect
// and measure the latency of messages or the bandwidth of puts.
//
//   transport_ping latency   tcp 8 1                 8-byte messages there and back, for 1 s
//   transport_ping bandwidth tcp 1048576 1           puts of 1 MiB, for 1 s
//   transport_ping bandwidth tcp 1048576 1 'tcp { streams: 4 }'
//   transport_ping latency   socket 8 1              the same over a bare socket, to compare with
// Prints one line: microseconds one way, or gigabits per second.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm_fields.h"
#include "comm/local_rendezvous.h"
#include "comm/sockets.h"
#include "comm/transport.h"
#include "comm/transports/inproc.h"
#include "src/base/check.h"
#include "src/base/shared_memory.h"

namespace kinet {
namespace {

constexpr int kWindow = 8;        // puts on their way
constexpr int kSpin = 200;        // polls without news before a rank sleeps
constexpr int kWarmUp = 2000;     // round trips before the clock starts
constexpr double kPatience = 30;  // seconds that a rank waits for anything

struct Task {
  bool bandwidth = false;
  std::string transport;
  size_t bytes = 8;
  double seconds = 1;
  std::string comm_param;
};

// What the two ranks share, as processes would share a rendezvous.
struct Shared {
  std::shared_ptr<LocalStore> store = std::make_shared<LocalStore>(2);
  std::shared_ptr<InprocHub> hub = std::make_shared<InprocHub>();
};

// One end. Events only count; whoever waits looks at the counts.
class End : public EventSink {
 public:
  End(Shared& shared, const Task& task, Rank rank)
      : task_(task), rank_(rank), peer_(1 - rank), rendezvous_(shared.store) {
    JoinRequest request;
    request.rank = rank;
    request.size = 2;
    const World world = rendezvous_.join(request, kPatience);
    Diagnostics diagnostics;
    const ParamNode tree = parse_prototxt(task.comm_param, "comm_param", diagnostics);
    validate(tree, comm_fields(), "comm_param", diagnostics);
    diagnostics.throw_if_any();
    const TransportType* type = TransportRegistry::instance().find(task.transport);
    KINET_CHECK(type != nullptr, "no transport '{}'", task.transport);
    TransportConfig config;
    config.rank = rank;
    config.size = 2;
    config.token = world.token;
    if (type->fields != nullptr) {
      config.params = Params(&tree, &comm_fields()).message(task.transport);
    }
    config.runtime.inproc = shared.hub;
    transport_ = type->make(config);

    // Offers change hands through the store, then both sides connect.
    rendezvous_.set(fmt::format("offer {}", rank), transport_->offer(peer_));
    transport_->connect(peer_, 0, rendezvous_.get(fmt::format("offer {}", peer_), kPatience));
    wait([&] { return connected_; });
  }
  ~End() override { rendezvous_.leave(); }

  // One-way time of a message, in microseconds: half of a round trip. Rank 1 sends back until an
  // empty message comes.
  double latency() {
    const std::vector<std::byte> message(task_.bytes);
    if (rank_ == 1) {
      for (uint64_t due = 1;; ++due) {
        wait([&] { return messages_ >= due; });
        if (last_) return 0;
        send(message);
      }
    }
    const auto round_trips = [&](const auto& more) {
      uint64_t trips = 0;
      for (; more(trips); ++trips) {
        const uint64_t due = messages_ + 1;
        send(message);
        wait([&] { return messages_ >= due; });
      }
      return trips;
    };
    round_trips([](uint64_t trips) { return trips < kWarmUp; });
    const double start = transport_->now();
    const uint64_t trips =
        round_trips([&](uint64_t) { return transport_->now() < start + task_.seconds; });
    const double seconds = transport_->now() - start;
    send({});
    return seconds / static_cast<double>(trips) / 2 * 1e6;
  }

  // Rank 0 keeps kWindow puts on their way, all from and to the same bytes as ib_write_bw does;
  // rank 1 says when the last is in.
  double bandwidth() {
    SharedMemory memory(task_.bytes, "ping");
    std::memset(memory.data(), 1, memory.bytes());
    const auto region = transport_->register_memory({memory.data(), memory.bytes(), memory.fd()});
    const RemoteRegion mine = region->remote();
    rendezvous_.set(fmt::format("region {}", rank_), fmt::format("{} {}", mine.address, mine.key));
    const std::string words = rendezvous_.get(fmt::format("region {}", peer_), kPatience);
    char* rest = nullptr;
    RemoteRegion theirs;
    theirs.address = std::strtoull(words.c_str(), &rest, 10);
    theirs.key = std::strtoull(rest, nullptr, 10);
    theirs.bytes = memory.bytes();

    double result = 0;
    if (rank_ == 0) {
      const double start = transport_->now();
      while (transport_->now() < start + task_.seconds) put(*region, theirs);
      send({});
      wait([&] { return last_; });
      result = static_cast<double>(posted_ * task_.bytes) * 8 / (transport_->now() - start) / 1e9;
      send({});
    } else {
      wait([&] { return last_; });
      uint64_t posted = 0;
      std::memcpy(&posted, count_.data(), sizeof(posted));
      wait([&] { return arrived_ >= posted; });
      last_ = false;
      send({});
      wait([&] { return last_; });
    }
    return result;
  }

  void on_connected(Rank) override { connected_ = true; }
  void on_message(Rank, std::span<const std::byte> message) override {
    ++messages_;
    if (message.size() == sizeof(uint64_t) && task_.bandwidth) {
      std::memcpy(count_.data(), message.data(), message.size());
    }
    last_ = message.empty() || task_.bandwidth;
  }
  void on_put_arrived(Rank, uint32_t, uint64_t) override { ++arrived_; }
  void on_puts_completed(Rank, uint64_t count) override { completed_ += count; }
  void on_peer_lost(Rank peer, const std::string& why) override {
    lost_ = fmt::format("rank {} is lost: {}", peer, why);
  }

 private:
  template <class Done>
  void wait(const Done& done) {
    const double deadline = transport_->now() + task_.seconds + kPatience;
    int idle = 0;
    for (int polls = 1; !done(); ++polls) {
      idle = transport_->poll(*this) > 0 ? 0 : idle + 1;
      if (!lost_.empty()) fail_runtime("{}", lost_);
      if (idle > kSpin && !done()) sleep();
      if (polls % 4096 == 0 && transport_->now() > deadline) {
        fail_runtime("rank {} waits in vain", rank_);
      }
    }
  }
  // As the contract says: arm, poll once more, then sleep on the descriptor.
  void sleep() {
    transport_->arm();
    const int fd = transport_->event_fd();
    if (transport_->poll(*this) == 0 && fd >= 0) {
      wait_ready(fd, POLLIN, Deadline(transport_->max_sleep()));
    }
  }
  void send(std::span<const std::byte> message) {
    std::array<std::byte, sizeof(uint64_t)> count{};
    if (task_.bandwidth) {  // how many puts there were
      std::memcpy(count.data(), &posted_, sizeof(posted_));
      message = count;
    }
    wait([&] { return transport_->send(peer_, message) == Post::kAccepted; });
  }
  void put(const MemoryRegion& from, const RemoteRegion& to) {
    Put put;
    put.from = &from;
    put.to = to;
    put.bytes = task_.bytes;
    put.flush = true;
    wait([&] { return posted_ - completed_ < kWindow; });
    wait([&] { return transport_->put(peer_, put) == Post::kAccepted; });
    ++posted_;
  }

  const Task task_;
  const Rank rank_, peer_;
  LocalRendezvous rendezvous_;
  std::unique_ptr<Transport> transport_;
  bool connected_ = false, last_ = false;
  std::string lost_;
  uint64_t messages_ = 0, posted_ = 0, completed_ = 0, arrived_ = 0;
  std::array<std::byte, sizeof(uint64_t)> count_{};
};

// ---- the same latency over a bare socket
// ---------------------------------------------------------

void read_all(int fd, std::vector<char>& buffer) {
  for (size_t have = 0; have < buffer.size();) {
    const ssize_t n = recv(fd, buffer.data() + have, buffer.size() - have, MSG_DONTWAIT);
    if (n > 0) have += static_cast<size_t>(n);
    if (n == 0) fail_runtime("the socket was closed");
  }
}

double socket_latency(const Task& task) {
  const FileDescriptor listener = listen_on({"127.0.0.1", 0});
  std::string why;
  const FileDescriptor here = connect_to(local_address(listener.get()), Deadline(kPatience), why);
  KINET_CHECK(here && wait_ready(listener.get(), POLLIN, Deadline(kPatience)), "no connection: {}",
              why);
  const FileDescriptor there(accept(listener.get(), nullptr, nullptr));
  set_rendezvous_options(here.get());
  set_rendezvous_options(there.get());
  std::atomic<bool> stop{false};
  std::thread echo([&] {
    std::vector<char> buffer(task.bytes);
    while (true) {
      read_all(there.get(), buffer);
      if (send(there.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL) < 0 || stop) return;
    }
  });
  std::vector<char> buffer(task.bytes);
  const auto round_trip = [&] {
    if (send(here.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL) > 0) {
      read_all(here.get(), buffer);
    }
  };
  for (int i = 0; i < kWarmUp; ++i) round_trip();
  const double start = steady_seconds();
  uint64_t trips = 0;
  for (; steady_seconds() < start + task.seconds; ++trips) round_trip();
  const double seconds = steady_seconds() - start;
  stop = true;
  round_trip();
  echo.join();
  return seconds / static_cast<double>(trips) / 2 * 1e6;
}

double run(const Task& task) {
  if (task.transport == "socket") {
    KINET_CHECK(!task.bandwidth, "only latency is measured over a bare socket");
    return socket_latency(task);
  }
  Shared shared;
  double result = 0;
  std::string error;
  const auto one = [&](Rank rank) {
    try {
      End end(shared, task, rank);
      const double value = task.bandwidth ? end.bandwidth() : end.latency();
      if (rank == 0) result = value;
    } catch (const std::exception& e) {
      if (rank == 0) error = e.what();
    }
  };
  std::thread other(one, 1);
  one(0);
  other.join();
  if (!error.empty()) fail_runtime("{}", error);
  return result;
}

}  // namespace
}  // namespace kinet

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: {} latency|bandwidth TRANSPORT BYTES SECONDS [COMM_PARAM]\n",
               argv[0]);
    return 2;
  }
  try {
    kinet::Task task;
    task.bandwidth = std::string(argv[1]) == "bandwidth";
    task.transport = argv[2];
    task.bytes = std::strtoull(argv[3], nullptr, 10);
    task.seconds = std::strtod(argv[4], nullptr);
    if (argc > 5) task.comm_param = argv[5];
    fmt::print("{:.3f} {}\n", kinet::run(task), task.bandwidth ? "Gbit/s" : "us");
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
