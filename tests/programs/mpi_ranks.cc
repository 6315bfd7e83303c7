// One rank of the tests of transport mpi (tests/mpi_transport_test.cc), started by mpirun.
//
// usage: mpi_ranks traffic|broadcast|refused|killed
// Prints "rank R of N: MODE ok" at its end; every wait has a deadline, whose passing is an error.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi_library.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kDeadline = 30;  // seconds of one wait
constexpr size_t kRegion = 12 << 20;
constexpr size_t kMeeting = 2;  // bytes of a message that says "I am here"; no other is as long

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class RankProgram : public EventSink {
 public:
  explicit RankProgram(const std::string& token)
      : place_(mpi_place()), memory_(place_.size, std::vector<std::byte>(kRegion)) {
    TransportConfig config;
    config.rank = rank();
    config.size = size();
    config.token = token;
    transport_ = TransportRegistry::instance().find("mpi")->make(config);
    for (auto& m : memory_) regions_.push_back(transport_->register_memory({m.data(), m.size()}));
    source_.resize(kRegion);
    source_region_ = transport_->register_memory({source_.data(), source_.size()});
    for (Rank r = 0; r < size(); ++r) {
      const std::string offer = mpi_broadcast_string(transport_->offer(r), r);
      if (r != rank()) transport_->connect(r, 0, offer);
    }
  }
  ~RankProgram() override {
    regions_.clear();
    source_region_.reset();
  }

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  Rank next() const { return (rank() + 1) % size(); }
  Rank previous() const { return (rank() + size() - 1) % size(); }
  Transport& transport() { return *transport_; }

  void until(const std::string& what, const std::function<bool()>& done) {
    const double deadline = seconds_now() + kDeadline;
    while (!done()) {
      if (transport_->poll(*this) == 0) std::this_thread::yield();
      if (seconds_now() > deadline) fail_runtime("rank {} waited too long for {}", rank(), what);
    }
  }
  void connect() {
    until("links", [&] { return connected == size() - 1 || lost > 0; });
  }
  void send(Rank to, const std::vector<std::byte>& message) {
    until("room", [&] { return transport_->send(to, message) == Post::kAccepted; });
  }
  void put(Rank to, const RemoteRegion& there, size_t bytes, uint32_t notify) {
    const Put put{source_region_.get(), 0, there, 1, bytes, notify, true};
    until("credit", [&] { return transport_->put(to, put) == Post::kAccepted; });
  }
  // Where this rank may put at each other: told by message.
  void tell_regions() {
    for (Rank r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const RemoteRegion mine = regions_[r]->remote();
      const auto bytes = std::as_bytes(std::span(&mine, 1));
      send(r, {bytes.begin(), bytes.end()});
    }
    for (Rank r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      until("a region", [&] { return !messages[r].empty(); });
      std::memcpy(&there[r], messages[r][0].data(), sizeof(RemoteRegion));
      messages[r].erase(messages[r].begin());
    }
  }

  void on_connected(Rank) override { ++connected; }
  void on_message(Rank from, std::span<const std::byte> m) override {
    if (m.size() == kMeeting) {
      ++met[from];
    } else {
      messages[from].emplace_back(m.begin(), m.end());
    }
  }
  void on_put_arrived(Rank from, uint32_t notify, uint64_t bytes) override {
    arrived[from].emplace_back(notify, bytes);
    for (uint64_t i = 0; i < bytes; i += 997) {
      if (memory_[from][1 + i] != pattern(from, i)) ++wrong;
    }
    if (bytes > 0 && memory_[from][bytes] != pattern(from, bytes - 1)) ++wrong;
    if (memory_[from][0] != std::byte{0}) ++wrong;
    if (bytes > 0 && memory_[from][1 + bytes] != std::byte{0}) ++wrong;  // sizes only grow
  }
  void on_puts_completed(Rank, uint64_t count) override { completed += count; }
  void on_peer_lost(Rank, const std::string& cause) override {
    ++lost;
    why = cause;
  }

  static std::byte pattern(Rank from, uint64_t i) {
    return static_cast<std::byte>(1 + (i * 7 + static_cast<uint64_t>(from)) % 250);
  }
  void fill_source(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) source_[i] = pattern(rank(), i);
  }

  int connected = 0, lost = 0, wrong = 0;
  uint64_t completed = 0;
  int meetings = 0;
  std::map<Rank, int> met;
  std::string why;
  std::map<Rank, std::vector<std::vector<std::byte>>> messages;
  std::map<Rank, std::vector<std::pair<uint32_t, uint64_t>>> arrived;
  std::map<Rank, RemoteRegion> there;

 private:
  MpiPlace place_;
  std::vector<std::vector<std::byte>> memory_;  // by who may write it
  std::vector<std::byte> source_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<MemoryRegion>> regions_;
  std::unique_ptr<MemoryRegion> source_region_;
};

void require(bool condition, const std::string& what) {
  if (!condition) fail_runtime("not so: {}", what);
}

// Everybody at the same point: each tells all, and waits for all.
void meet(RankProgram& p) {
  ++p.meetings;
  for (Rank r = 0; r < p.size(); ++r) {
    if (r != p.rank()) p.send(r, std::vector<std::byte>(kMeeting));
  }
  for (Rank r = 0; r < p.size(); ++r) {
    if (r != p.rank()) p.until("the others", [&] { return p.met[r] >= p.meetings; });
  }
}

// Messages in order, more than credits; puts of many sizes, whole and next to nothing else.
void traffic(RankProgram& p) {
  constexpr int kMessages = 500;
  p.connect();
  require(p.lost == 0, "links came up: " + p.why);
  p.tell_regions();
  for (int i = 0; i < kMessages; ++i) {
    for (Rank r = 0; r < p.size(); ++r) {
      if (r != p.rank()) p.send(r, std::vector<std::byte>(1 + i * 2, static_cast<std::byte>(i)));
    }
  }
  for (Rank r = 0; r < p.size(); ++r) {
    if (r == p.rank()) continue;
    p.until("messages", [&] { return p.messages[r].size() >= kMessages; });
    for (int i = 0; i < kMessages; ++i) {
      const auto& m = p.messages[r][i];
      require(m.size() == 1U + i * 2 && m.back() == static_cast<std::byte>(i), "order of messages");
    }
  }
  meet(p);
  uint32_t number = 0;
  for (const size_t bytes : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 65537UL, 10UL << 20}) {
    p.fill_source(bytes);
    p.put(p.next(), p.there[p.next()], bytes, ++number);
    p.until("a put",
            [&] { return p.arrived[p.previous()].size() >= number && p.completed >= number; });
    require(p.arrived[p.previous()].back() == std::pair(number, uint64_t{bytes}), "its size");
    meet(p);  // before the target and the source are written again
  }
  for (int i = 0; i < 300; ++i) p.put(p.next(), p.there[p.next()], 0, ++number);
  p.until("notifications",
          [&] { return p.arrived[p.previous()].size() >= number && p.completed >= number; });
  require(p.wrong == 0, "bytes of puts");
  require(p.transport().counters().busy > 0, "somebody was told to wait");
  meet(p);
}

void refused(RankProgram& p) {
  p.connect();
  if (p.rank() == 0) {
    p.until("a loss", [&] { return p.lost > 0; });
    require(p.why.find("token") != std::string::npos, "why it was refused: " + p.why);
    require(p.transport().send(1, {}) == Post::kPeerLost, "nothing can be sent to it");
  } else {
    p.until("a loss", [&] { return p.lost > 0; });
  }
}

void killed(RankProgram& p) {
  p.connect();
  meet(p);
  if (p.rank() == p.size() - 1) kill(getpid(), SIGKILL);
  p.until("what never comes", [] { return false; });
}

void broadcast() {
  const MpiPlace place = mpi_place();
  for (int root = 0; root < place.size; ++root) {
    const std::string own(10000 * (place.rank + 1), static_cast<char>('a' + place.rank));
    const std::string got = mpi_broadcast_string(own, root);
    require(got == std::string(10000 * (root + 1), static_cast<char>('a' + root)), "the text");
  }
  require(mpi_broadcast_string("", 0).empty(), "an empty text");
}

void run(const std::string& mode) {
  if (mode == "broadcast") return broadcast();
  const bool wrong_token = mode == "refused" && mpi_place().rank == 1;
  RankProgram program(wrong_token ? "not it" : "the token of this run");
  if (mode == "traffic") return traffic(program);
  if (mode == "refused") return refused(program);
  if (mode == "killed") return killed(program);
  fail("unknown mode '{}'", mode);
}

}  // namespace
}  // namespace kinet

int main(int argc, char** argv) {
  try {
    const std::string mode = argc > 1 ? argv[1] : "";
    kinet::run(mode);
    const kinet::MpiPlace place = kinet::mpi_place();
    fmt::print("rank {} of {}: {} ok\n", place.rank, place.size, mode);
    return 0;
  } catch (const kinet::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_status();
  }
}
