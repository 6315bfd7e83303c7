// Transport shm between real processes: one that is killed, stopped, or sleeps at the wrong moment.
// ctest: labels=unit,core timeout=180
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <random>

#include "src/base/shared_memory.h"
#include "tests/shm_ranks.h"

namespace kinet {
namespace {

constexpr unsigned kChildLimit = 120;  // seconds; then the system ends it

// Text of at most 255 bytes to the other process, and from it.
bool tell(int control, const std::string& text) {
  std::array<char, 256> buffer{};
  std::memcpy(buffer.data(), text.data(), text.size());
  return send(control, buffer.data(), buffer.size(), MSG_NOSIGNAL) == std::ssize(buffer);
}
std::string hear(int control) {
  std::array<char, 256> buffer{};
  pollfd p{control, POLLIN, 0};
  if (::poll(&p, 1, 1000 * static_cast<int>(kTestLimit)) != 1) return "";
  return recv(control, buffer.data(), buffer.size(), MSG_WAITALL) > 0 ? buffer.data() : "";
}

// A process that runs `body`, which returns whether all went well. Killed with this object.
class Child {
 public:
  explicit Child(const std::function<bool(int control)>& body) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
    pid_ = fork();
    close(ends[pid_ == 0 ? 0 : 1]);
    control_ = ends[pid_ == 0 ? 1 : 0];
    if (pid_ != 0) return;
    alarm(kChildLimit);
    _exit(body(control_) ? 0 : 1);
  }
  ~Child() {
    close(control_);
    signal(SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int control() const { return control_; }
  void signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  int wait() {  // its exit status, -1 when a signal ended it
    int status = -1;
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int control_ = -1;
};

// One rank of two; the other one is in the process at the other end of `control`.
struct LinkedRank {
  LinkedRank(Rank rank, int control, uint32_t incarnation = 0)
      : peer(1 - rank), transport(make_shm(shm_config(rank, 2, incarnation))) {
    tell(control, transport->offer(peer));
    transport->connect(peer, 0, hear(control));
    up = until([&] { return !events.connected.empty(); });
  }
  bool until(const std::function<bool()>& done) {
    return wait_until([&] { return transport->poll(events), done(); });
  }
  // false: nothing woke this rank.
  bool sleep() {
    transport->arm();
    if (transport->poll(events) > 0) return true;
    pollfd p{transport->event_fd(), POLLIN, 0};
    const bool woken = ::poll(&p, 1, 1000 * static_cast<int>(kTestLimit)) == 1;
    transport->poll(events);
    return woken;
  }
  bool send(const std::string& text) {
    return until([&] { return transport->send(peer, bytes_of(text)) != Post::kBusy; });
  }

  Rank peer;
  std::unique_ptr<Transport> transport;
  ShmEvents events;
  bool up = false;
};

// Numbered messages until the peer is gone.
bool stream(int control) {
  LinkedRank rank(0, control);
  for (int i = 0; rank.events.lost.empty(); ++i) {
    if (!rank.send(std::to_string(i))) return false;
  }
  return true;
}

TEST(ShmProcess, AKilledPeerIsNamedAtOnce) {
  for (const bool asleep : {false, true}) {
    Child child(stream);
    LinkedRank rank(1, child.control());
    ASSERT_TRUE(rank.up);
    ASSERT_TRUE(rank.until([&] { return rank.events.messages.size() >= 10000; }));
    child.signal(SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    if (asleep) {
      while (rank.events.lost.empty()) ASSERT_TRUE(rank.sleep());
    } else {
      ASSERT_TRUE(rank.until([&] { return !rank.events.lost.empty(); }));
    }
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    EXPECT_LT(waited.count(), 10);
    EXPECT_EQ(rank.events.lost[0].first, 0);
    EXPECT_EQ(rank.transport->send(0, bytes_of("x")), Post::kPeerLost);
    for (size_t i = 0; i < rank.events.messages.size(); ++i) {
      ASSERT_EQ(rank.events.messages[i], std::to_string(i));
    }
  }
}

// A process started by the peer has its sockets too, and outlives it.
TEST(ShmProcess, AKilledPeerIsNamedThoughItsChildLives) {
  Child child([](int control) {
    LinkedRank rank(0, control);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      alarm(kChildLimit);
      for (;;) pause();
    }
    tell(control, std::to_string(grandchild));
    return rank.until([] { return false; });
  });
  LinkedRank rank(1, child.control());
  ASSERT_TRUE(rank.up);
  const pid_t grandchild = std::stoi(hear(child.control()));
  child.signal(SIGKILL);
  const bool named = rank.until([&] { return !rank.events.lost.empty(); });
  EXPECT_EQ(kill(grandchild, SIGKILL), 0) << "it was still alive";
  EXPECT_TRUE(named);
}

TEST(ShmProcess, AStoppedPeerIsNotLost) {
  Child child(stream);
  LinkedRank rank(1, child.control());
  ASSERT_TRUE(rank.until([&] { return rank.events.messages.size() >= 1000; }));
  child.signal(SIGSTOP);
  size_t before = 0;
  wait_until([&] { return rank.transport->poll(rank.events), false; }, 0.3);
  before = rank.events.messages.size();
  wait_until([&] { return rank.transport->poll(rank.events), false; }, 0.3);
  EXPECT_EQ(rank.events.messages.size(), before);
  while (rank.transport->send(0, bytes_of("x")) == Post::kAccepted) continue;
  EXPECT_EQ(rank.transport->send(0, bytes_of("x")), Post::kBusy);
  EXPECT_TRUE(rank.events.lost.empty());
  child.signal(SIGCONT);
  EXPECT_TRUE(rank.until([&] { return rank.events.messages.size() > before + 1000; }));
  EXPECT_TRUE(rank.send("and it takes again"));
}

// Stopped, declared lost, replaced, and only then it goes on: it changes nothing, and ends.
TEST(ShmProcess, AStoppedPeerThatWasReplacedEnds) {
  Child old(stream);
  LinkedRank rank(1, old.control());
  ASSERT_TRUE(rank.until([&] { return rank.events.messages.size() >= 1000; }));
  old.signal(SIGSTOP);
  rank.transport->disconnect(0);
  rank.events.messages.clear();
  Child successor([](int control) {
    LinkedRank young(0, control, 1);
    for (int i = 0; young.events.lost.empty(); ++i) {
      if (!young.send("new " + std::to_string(i))) return false;
    }
    return true;
  });
  tell(successor.control(), rank.transport->offer(0));
  rank.transport->connect(0, 1, hear(successor.control()));
  ASSERT_TRUE(rank.until([&] { return rank.events.messages.size() >= 1000; }));
  old.signal(SIGCONT);
  EXPECT_EQ(old.wait(), 0) << "it sees that its link is gone";
  const size_t before = rank.events.messages.size();
  ASSERT_TRUE(rank.until([&] { return rank.events.messages.size() >= before + 1000; }));
  for (size_t i = 0; i < rank.events.messages.size(); ++i) {
    ASSERT_EQ(rank.events.messages[i], "new " + std::to_string(i));
  }
  EXPECT_TRUE(rank.events.lost.empty());
  rank.transport.reset();
  EXPECT_EQ(successor.wait(), 0);
}

// Each side answers every burst with a burst and sleeps at random: a wake-up that is lost once in
// 100,000 messages leaves both asleep.
bool volley(LinkedRank& rank, int messages) {
  std::mt19937 random(rank.peer);
  const auto seen = [&] { return rank.events.messages.size(); };
  size_t due = 0;
  for (int sent = 0; sent < messages; ++due) {
    const std::string text(1 + random() % 300, 'x');
    if (!rank.send(text)) return false;
    ++sent;
    for (unsigned spin = random() % 200; spin > 0 && seen() <= due; --spin) {
      rank.transport->poll(rank.events);
    }
    while (seen() <= due) {
      if (!rank.events.lost.empty() || !rank.sleep()) return false;
    }
  }
  return true;
}

TEST(ShmProcess, NoWakeUpIsLost) {
  constexpr int kMessages = 50000;  // each way
  Child child([](int control) {
    LinkedRank rank(0, control);
    return volley(rank, kMessages) && rank.until([&] { return !rank.events.lost.empty(); });
  });
  LinkedRank rank(1, child.control());
  ASSERT_TRUE(rank.up);
  EXPECT_TRUE(volley(rank, kMessages));
  EXPECT_EQ(rank.events.messages.size(), size_t{kMessages});
  EXPECT_LT(rank.transport->counters().system_calls, 10U * kMessages);
  rank.transport.reset();
  EXPECT_EQ(child.wait(), 0);
}

// The same for a sender that sleeps because the ring is full.
TEST(ShmProcess, NoRoomIsLost) {
  constexpr size_t kMessages = 100000;
  Child child([](int control) {
    LinkedRank rank(0, control);
    const std::string text(900, 'x');
    for (size_t sent = 0; sent < kMessages;) {
      if (rank.transport->send(1, bytes_of(text)) == Post::kAccepted) {
        ++sent;
      } else if (!rank.sleep()) {
        return false;
      }
    }
    return rank.until([&] { return !rank.events.lost.empty(); });
  });
  LinkedRank rank(1, child.control());
  while (rank.events.messages.size() < kMessages) {
    ASSERT_TRUE(rank.sleep()) << "after " << rank.events.messages.size();
    ASSERT_TRUE(rank.events.lost.empty());
  }
  rank.transport.reset();
  EXPECT_EQ(child.wait(), 0);
}

TEST(ShmProcess, PutsIntoAnotherProcess) {
  constexpr size_t kBytes = size_t{10} << 20;
  const auto pattern = [](size_t i) { return static_cast<std::byte>(i * 7 + i / 4096); };
  Child child([&](int control) {
    LinkedRank rank(0, control);
    const SharedMemory memory(kBytes, "test source");
    for (size_t i = 0; i < kBytes; ++i) memory.data()[i] = pattern(i);
    const auto region = rank.transport->register_memory({memory.data(), kBytes, memory.fd()});
    if (!rank.until([&] { return !rank.events.messages.empty(); })) return false;
    RemoteRegion there;
    std::memcpy(&there, rank.events.messages[0].data(), sizeof(there));
    const Put put{region.get(), 0, there, 0, kBytes, 9, true};
    return rank.transport->put(1, put) == Post::kAccepted &&
           rank.until([&] { return rank.events.completed == 1 && !rank.events.lost.empty(); });
  });
  LinkedRank rank(1, child.control());
  const SharedMemory memory(kBytes, "test target");
  const auto region = rank.transport->register_memory({memory.data(), kBytes, memory.fd()});
  const RemoteRegion here = region->remote();
  ASSERT_TRUE(rank.send({reinterpret_cast<const char*>(&here), sizeof(here)}));
  ASSERT_TRUE(rank.until([&] { return !rank.events.puts.empty(); }));
  EXPECT_EQ(rank.events.puts[0], std::make_pair(9U, uint64_t{kBytes}));
  size_t wrong = 0;
  for (size_t i = 0; i < kBytes; ++i) wrong += memory.data()[i] != pattern(i) ? 1 : 0;
  EXPECT_EQ(wrong, 0U);
  rank.transport->disconnect(0);
  EXPECT_EQ(child.wait(), 0);
}

TEST(ShmProcess, AForkedChildLeavesTheLinksAlone) {
  ShmPair pair;
  ASSERT_TRUE(pair.up);
  const SharedMemory memory(4096, "test");
  auto region = pair.first->register_memory({memory.data(), 4096, memory.fd()});
  const pid_t pid = fork();
  if (pid == 0) {
    region.reset();
    pair.first.reset();
    pair.second.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  const auto mine = pair.second->register_memory({memory.data(), 4096, memory.fd()});
  ASSERT_EQ(pair.second->put(0, {mine.get(), 0, region->remote(), 0, 100, 1}), Post::kAccepted);
  ASSERT_EQ(pair.first->send(1, bytes_of("still here")), Post::kAccepted);
  ASSERT_TRUE(
      pair.until([&] { return !pair.at_first.puts.empty() && !pair.at_second.messages.empty(); }));
  EXPECT_TRUE(pair.at_first.lost.empty() && pair.at_second.lost.empty());
  pair.first->disconnect(1);  // and the end is seen though the child might still hold the socket
  EXPECT_TRUE(pair.until([&] { return !pair.at_second.lost.empty(); }));
}

}  // namespace
}  // namespace kinet
