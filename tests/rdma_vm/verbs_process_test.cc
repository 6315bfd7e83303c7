// Ranks that are processes: killed, stopped, without the right to lock memory, forked after RDMA
// has begun. The child of each test is rank 1.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/rdma_vm/verbs_pair.h"

namespace kinet {
namespace {

using testing::HasSubstr;

// Lines over a socket pair: the store through which the two processes find each other.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  ~Line() { close(fd_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void tell(const std::string& text) {
    const std::string line = text + "\n";
    if (write(fd_, line.data(), line.size()) < 0) fail_runtime("the other process is gone");
  }
  std::string hear() {
    std::string line;
    for (char c = 0; read(fd_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  int fd_;
};

class Child {
 public:
  explicit Child(const std::function<void(Line&)>& body) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      alarm(120);  // never left behind
      Line line(ends[1]);
      try {
        body(line);
      } catch (const std::exception& error) {
        line.tell(std::string("error: ") + error.what());
        _exit(1);
      }
      _exit(0);
    }
    close(ends[1]);
    line_ = std::make_unique<Line>(ends[0]);
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Line& line() { return *line_; }
  void signal(int number) { kill(pid_, number); }

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Line> line_;
};

// One end of a link whose other end is another process.
struct OneRank {
  OneRank(Rank rank, const std::string& knobs) : params(knobs), rank(rank) {
    transport = params.make(rank);
  }
  void connect(Line& line) {
    line.tell(transport->offer(1 - rank));
    transport->connect(1 - rank, 0, line.hear());
    until("the link", [&] { return log.connected > 0; });
  }
  void until(const std::string& what, const std::function<bool()>& done,
             double seconds = kRdmaPatience) {
    const double deadline = test_now() + seconds;
    for (int quiet = 0; !done();) {
      quiet = transport->poll(log) > 0 ? 0 : quiet + 1;
      if (quiet > 20) nap();
      if (test_now() > deadline) fail_runtime("rank {}: no {} ({})", rank, what, log.why);
    }
  }
  VerbsParams params;
  Rank rank;
  EventLog log;
  std::unique_ptr<Transport> transport;
};

// Text of a region, for the peer.
std::string region_text(const TestMemory& memory) {
  const RemoteRegion r = memory.region().remote();
  return std::to_string(r.address) + " " + std::to_string(r.key) + " " + std::to_string(r.bytes);
}
RemoteRegion region_of(const std::string& text) {
  RemoteRegion r;
  std::istringstream(text) >> r.address >> r.key >> r.bytes;
  return r;
}

void receive_for_ever(Line& line, const std::string& knobs) {
  OneRank rank(1, knobs);
  TestMemory memory(*rank.transport, 1 << 20);
  rank.connect(line);
  line.tell(region_text(memory));
  rank.until(
      "the end", [&] { return rank.log.lost > 0; }, 100);
}

TEST(VerbsProcess, AKilledPeerIsNamedWithinItsTime) {
  constexpr const char* kKnobs = "timeout: 12 retry_count: 6";  // 7 x 16.8 ms
  Child child([](Line& line) { receive_for_ever(line, kKnobs); });
  OneRank rank(0, kKnobs);
  TestMemory memory(*rank.transport, 1 << 20);
  rank.connect(child.line());
  const RemoteRegion there = region_of(child.line().hear());
  double killed = 0;
  for (uint32_t i = 0; rank.log.lost == 0; ++i) {
    if (i == 40) {
      child.signal(SIGKILL);
      killed = test_now();
    }
    const Put put{&memory.region(), 0, there, 0, 64 << 10, i, true};
    rank.until("room",
               [&] { return rank.log.lost > 0 || rank.transport->put(1, put) == Post::kAccepted; });
  }
  EXPECT_LT(test_now() - killed, 10 * 7 * 4.096e-6 * 4096 + 10);
  for (const char* part : {"rank 1", "10.77.0.1", "10.77.0.2", "has ended"}) {
    EXPECT_THAT(rank.log.why, HasSubstr(part));
  }
  EXPECT_EQ(rank.transport->send(1, {}), Post::kPeerLost);
  for (int i = 0; i < 50; ++i) rank.transport->poll(rank.log);
  EXPECT_EQ(rank.log.lost, 1);
  EXPECT_EQ(rank.log.after_loss, 0);
}

// Receivers that were not ready, by the counters of the devices.
uint64_t receivers_not_ready() {
  uint64_t sum = 0;
  for (const char* device : {"rxe0", "rxe1"}) {
    const std::string folder =
        std::string("/sys/class/infiniband/") + device + "/ports/1/hw_counters";
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().find("rnr") == std::string::npos) continue;
      uint64_t value = 0;
      std::ifstream(entry.path()) >> value;
      sum += value;
      ++found;
    }
    EXPECT_GT(found, 0) << folder;
  }
  return sum;
}

TEST(VerbsProcess, AStoppedReceiverLosesNothing) {
  constexpr uint32_t kDepth = 64, kMessages = 10 * kDepth;
  constexpr const char* kKnobs = "receive_depth: 64";
  const uint64_t not_ready = receivers_not_ready();
  Child child([](Line& line) {
    OneRank rank(1, kKnobs);
    rank.connect(line);
    uint32_t next = 0, wrong = 0;
    rank.log.when_message = [&](std::span<const std::byte> message) {
      uint32_t number = 0;
      std::memcpy(&number, message.data(), sizeof(number));
      wrong += number != next++;
    };
    line.tell("ready");
    rank.until("the messages", [&] { return rank.log.messages == kMessages; });
    line.tell(std::to_string(wrong));
    rank.until("the end", [&] { return rank.log.lost > 0; });
  });
  OneRank rank(0, kKnobs);
  rank.connect(child.line());
  ASSERT_EQ(child.line().hear(), "ready");
  child.signal(SIGSTOP);
  const double stopped = test_now();
  std::array<std::byte, 200> message{};
  uint32_t sent = 0;
  const auto send_more = [&] {
    while (sent < kMessages) {
      std::memcpy(message.data(), &sent, sizeof(sent));
      if (rank.transport->send(1, message) != Post::kAccepted) return;
      ++sent;
    }
  };
  rank.until("two seconds", [&] { return send_more(), test_now() - stopped > 2; });
  EXPECT_LE(sent, kDepth) << "more than there are receives";
  EXPECT_GT(rank.transport->counters().busy, 0U);
  child.signal(SIGCONT);
  rank.until("the rest", [&] { return send_more(), sent == kMessages; });
  rank.until("a moment for the last", [&, end = test_now() + 1] { return test_now() > end; });
  EXPECT_EQ(child.line().hear(), "0");
  EXPECT_EQ(rank.log.lost, 0) << rank.log.why;
  EXPECT_EQ(receivers_not_ready(), not_ready);
}

TEST(VerbsProcess, WithoutTheRightToLockMemoryTheLimitIsNamed) {
  Child child([](Line& line) {
    const rlimit limit{64 << 10, 64 << 10};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setuid(65534) != 0) line.tell("no setuid");
    try {
      OneRank rank(1, "");
      TestMemory memory(*rank.transport, 1 << 20);
      line.tell("it worked");
    } catch (const Error& error) {
      std::string text = error.what();
      for (char& c : text) c = c == '\n' ? ' ' : c;
      line.tell(text);
    }
  });
  const std::string text = child.line().hear();
  for (const char* part : {"cannot register", "64 KiB", "ulimit -l", "limits.d"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(VerbsProcess, AForkAfterRegistrationHarmsNobody) {
  VerbsPair pair;
  TestMemory source(*pair.ranks[0], 1 << 20), target(*pair.ranks[1], 1 << 20);
  pair.connect();
  source.fill(1);
  const pid_t child = fork();
  if (child == 0) {
    nap();
    _exit(0);
  }
  source.fill(2);  // after the fork: pages may have been copied by now
  pair.put(0, make_put(source, 0, target, 0, source.bytes(), 5, true));
  pair.until("the put", [&] { return pair.logs[1].arrived == 1; });
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(0, std::memcmp(source.data(), target.data(), source.bytes()));
}

}  // namespace
}  // namespace kinet
