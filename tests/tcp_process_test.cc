// Transport tcp between real processes: a peer that is killed in the middle of its puts, stopped
// while puts come in, or declared lost while it was stopped.
// ctest: labels=unit,core timeout=180
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "comm/sockets.h"
#include "comm/transport.h"
#include "src/base/shared_memory.h"
#include "tests/transport_traffic.h"

namespace kinet {
namespace {

constexpr double kLimit = 60;          // seconds of one wait
constexpr unsigned kChildLimit = 120;  // seconds; then the system ends the child
constexpr size_t kSlot = 64 * kKiB;
constexpr uint32_t kSlots = 64;

// One rank of two: its transport, memory of kSlots slots, a socket pair to the other process.
class ProcessRank : public EventSink {
 public:
  ProcessRank(Rank rank, int control)
      : peer_(1 - rank), control_(control), memory_(kSlots * kSlot, "process rank") {
    TransportConfig config;
    config.rank = rank;
    config.size = 2;
    config.token = "token of the process test";
    config.timeout = kLimit;
    transport_ = TransportRegistry::instance().find("tcp")->make(config);
    region_ = transport_->register_memory({memory_.data(), memory_.bytes(), memory_.fd()});
  }

  bool connect() {
    const RemoteRegion mine = region_->remote();
    if (!tell(fmt::format("{} {}", mine.key, transport_->offer(peer_)))) return false;
    const std::string heard = hear();
    const size_t space = heard.find(' ');
    if (space == std::string::npos) return false;
    there_ = {0, std::stoull(heard), memory_.bytes()};
    transport_->connect(peer_, 0, heard.substr(space + 1));
    return until([&] { return connected; });
  }

  // Text of at most 255 bytes to the other process, and from it; "" when it is gone.
  bool tell(const std::string& text) const {
    std::array<char, 256> buffer{};
    std::memcpy(buffer.data(), text.data(), text.size());
    return ::send(control_, buffer.data(), buffer.size(), MSG_NOSIGNAL) == std::ssize(buffer);
  }
  std::string hear() const {
    std::array<char, 256> buffer{};
    pollfd p{control_, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(kLimit * 1000)) != 1) return "";
    return recv(control_, buffer.data(), buffer.size(), MSG_WAITALL) > 0 ? buffer.data() : "";
  }

  // false: the deadline has passed.
  bool until(const std::function<bool()>& done) {
    const Deadline deadline(kLimit);
    while (!done()) {
      if (deadline.passed()) return false;
      if (transport_->poll(*this) == 0) usleep(20);
    }
    return true;
  }

  // Puts number i from slot i to slot i of the peer.
  Post put(uint32_t i) {
    Put put;
    put.from = region_.get();
    put.from_offset = put.to_offset = (i % kSlots) * kSlot;
    put.to = there_;
    put.bytes = kSlot;
    put.notify = i;
    put.flush = true;
    return transport_->put(peer_, put);
  }

  void on_connected(Rank) override { connected = true; }
  void on_message(Rank, std::span<const std::byte>) override { ++messages; }
  void on_put_arrived(Rank, uint32_t, uint64_t) override { ++arrived; }
  void on_puts_completed(Rank, uint64_t count) override { completed += count; }
  void on_peer_lost(Rank, const std::string& text) override {
    ++lost;
    why = text;
  }

  Transport& transport() { return *transport_; }
  std::byte* data() { return memory_.data(); }
  size_t bytes() const { return memory_.bytes(); }

  bool connected = false;
  int messages = 0, lost = 0;
  uint64_t arrived = 0, completed = 0;
  std::string why;

 private:
  const Rank peer_;
  const int control_;
  SharedMemory memory_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<MemoryRegion> region_;
  RemoteRegion there_;
};

// Rank 1 in a process of its own, running `body`. Killed and waited for with this object.
class Child {
 public:
  explicit Child(const std::function<bool(ProcessRank&)>& body) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      alarm(kChildLimit);
      close(ends[0]);
      bool good = false;
      try {
        ProcessRank rank(1, ends[1]);
        good = rank.connect() && body(rank);
      } catch (const std::exception& e) {
        fmt::print(stderr, "child: {}\n", e.what());
      }
      _exit(good ? 0 : 1);
    }
    close(ends[1]);
    control_ = FileDescriptor(ends[0]);
  }
  ~Child() {
    if (pid_ > 0) signal(SIGKILL);
    wait();
  }
  int control() const { return control_.get(); }
  void signal(int number) const { kill(pid_, number); }
  // Its exit status, or minus the signal that ended it.
  int wait() {
    int status = 0;
    if (pid_ <= 0) return -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Until the kernel has really stopped it.
  void stop() const {
    signal(SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor control_;
};

bool put_for_ever(ProcessRank& rank) {
  for (uint32_t i = 0; rank.lost == 0; ++i) {
    Post answer = Post::kBusy;
    const bool answered = rank.until([&] {
      answer = rank.put(i);
      return answer != Post::kBusy || rank.lost > 0;
    });
    if (!answered) return false;
    rank.transport().poll(rank);  // a loss is told there, also when put() knows of it already
  }
  return true;
}

TEST(TcpProcess, AKilledPeerIsNamedOnceAndWritesNoMore) {
  for (int round = 0; round < 5; ++round) {
    Child child(put_for_ever);
    ProcessRank rank(0, child.control());
    ASSERT_TRUE(rank.connect());
    const uint64_t enough = 1 + 40 * static_cast<uint64_t>(round);
    ASSERT_TRUE(rank.until([&] { return rank.arrived >= enough; }));
    child.signal(SIGKILL);
    ASSERT_TRUE(rank.until([&] { return rank.lost > 0; }));
    EXPECT_EQ(child.wait(), -SIGKILL);
    EXPECT_EQ(rank.put(0), Post::kPeerLost);
    std::memset(rank.data(), 0, rank.bytes());
    const uint64_t arrived = rank.arrived;
    for (int i = 0; i < 1000; ++i) rank.transport().poll(rank);
    EXPECT_EQ(rank.lost, 1) << rank.why;
    EXPECT_EQ(rank.arrived, arrived);
    EXPECT_TRUE(all_equal(rank.data(), rank.bytes(), std::byte{0}));
  }
}

TEST(TcpProcess, PutsToAStoppedPeerWaitAndAllArrive) {
  constexpr uint32_t kPuts = kSlots;  // each to a slot of its own
  Child child([](ProcessRank& rank) {
    if (!rank.until([&] { return rank.arrived >= kPuts; })) return false;
    return is_pattern(rank.data(), rank.bytes(), 4) && rank.tell("good");
  });
  ProcessRank rank(0, child.control());
  fill_pattern(rank.data(), rank.bytes(), 4);
  ASSERT_TRUE(rank.connect());
  child.stop();
  uint32_t posted = 0;
  for (int tries = 0; tries < 20000 && posted < kPuts; ++tries) {
    const Post answer = rank.put(posted);
    ASSERT_NE(answer, Post::kPeerLost);
    if (answer == Post::kAccepted) ++posted;
    rank.transport().poll(rank);
  }
  child.signal(SIGCONT);
  for (; posted < kPuts; ++posted) {
    ASSERT_TRUE(rank.until([&] { return rank.put(posted) == Post::kAccepted; }));
  }
  ASSERT_TRUE(rank.until([&] { return rank.completed >= kPuts; }));
  EXPECT_EQ(rank.hear(), "good");
  EXPECT_EQ(child.wait(), 0);
}

// It is stopped in the middle of its puts, declared lost, and continued: not a byte changes here,
// and it hears of its loss.
TEST(TcpProcess, APeerDeclaredLostWhileStoppedWritesNoMore) {
  Child child(put_for_ever);
  ProcessRank rank(0, child.control());
  ASSERT_TRUE(rank.connect());
  ASSERT_TRUE(rank.until([&] { return rank.arrived >= 20; }));
  child.stop();
  rank.transport().disconnect(1);
  std::memset(rank.data(), 0, rank.bytes());
  child.signal(SIGCONT);
  EXPECT_EQ(child.wait(), 0);
  for (int i = 0; i < 1000; ++i) rank.transport().poll(rank);
  EXPECT_EQ(rank.lost, 0);
  EXPECT_TRUE(all_equal(rank.data(), rank.bytes(), std::byte{0}));
}

}  // namespace
}  // namespace kinet
