// The rendezvous against everything that is no rank: wrong tokens, garbage, damaged frames,
// silence, crowds. Only the connection concerned may suffer. ctest: labels=unit,core,threads
// timeout=180
#include "comm/rendezvous_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <future>

#include "comm/tcp_rendezvous.h"

namespace kinet {
namespace {

constexpr double kSeconds = 60;  // for what has to come
constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

JoinRequest request(Rank rank, int size) {
  JoinRequest r;
  r.rank = rank;
  r.size = size;
  r.node = "node";
  r.host = "host";
  r.process = 100 + rank;
  return r;
}

class RendezvousServerTest : public testing::Test {
 protected:
  void start(int size, double hello_timeout = kSeconds) {
    RendezvousServerOptions o;
    o.size = size;
    o.token = kToken;
    o.hello_timeout = hello_timeout;
    o.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    server_ = std::make_unique<RendezvousServer>(o);
  }

  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  std::unique_ptr<TcpRendezvous> member(const std::string& token = kToken) const {
    return std::make_unique<TcpRendezvous>(server_->address(), token, kSeconds);
  }

  FileDescriptor stranger(const std::string& bytes) const {
    std::string why;
    FileDescriptor fd = connect_to(server_->address(), Deadline(kSeconds), why);
    EXPECT_TRUE(fd) << why;
    send_all(fd, bytes);
    return fd;
  }

  static void send_all(const FileDescriptor& fd, const std::string& bytes) {
    const Deadline deadline(kSeconds);
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<size_t>(n);
      if (n < 0 && errno != EAGAIN) return;  // the server has closed: allowed
      if (n < 0 && !wait_ready(fd.get(), POLLOUT, deadline)) return;
    }
  }

  // What the server answers until it closes. "not closed" when it does not.
  static std::string answer(const FileDescriptor& fd) {
    std::string text;
    std::array<char, 4096> bytes;
    const Deadline deadline(kSeconds);
    while (wait_ready(fd.get(), POLLIN, deadline)) {
      const ssize_t n = ::recv(fd.get(), bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EAGAIN) continue;
      if (n <= 0) return text;
      text.append(bytes.data(), static_cast<size_t>(n));
    }
    return "not closed";
  }

  // Two ranks can still meet, exchange a key and leave.
  void expect_alive() const {
    auto other = std::async(std::launch::async, [this] {
      const auto rank = member();
      rank->join(request(1, 2), kSeconds);
      rank->set("key", "value");
      rank->leave();
    });
    const auto rank = member();
    rank->join(request(0, 2), kSeconds);
    EXPECT_EQ(rank->get("key", kSeconds), "value");
    other.get();
    rank->leave();
    EXPECT_TRUE(server_->wait_until_left(kSeconds));
  }

  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<RendezvousServer> server_;  // last: its thread writes the log
};

TEST_F(RendezvousServerTest, AWrongTokenIsClosedLoggedAndNotAnswered) {
  start(2);
  const std::string wrong = "0123456789abcdef0123456789abcdeF";
  EXPECT_EQ(answer(stranger(hello_frame(wrong))), "");
  EXPECT_NE(log().find("wrong run token"), std::string::npos) << log();
  EXPECT_EQ(log().find(kToken), std::string::npos) << log();  // the secret is not told
  EXPECT_EQ(log().find(wrong), std::string::npos) << log();
  try {
    member(wrong);
    FAIL() << "it was let in";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("same run token"), std::string::npos) << error.what();
    EXPECT_EQ(error.kind(), Error::Kind::kUser);
  }
  expect_alive();
}

TEST_F(RendezvousServerTest, AnotherVersionIsToldSo) {
  start(2);
  const std::string hello =
      FrameWriter().text("KNTR").number(77).text(kToken).frame(RendezvousKind::kHello);
  EXPECT_NE(answer(stranger(hello)).find("version 77"), std::string::npos);
  expect_alive();
}

TEST_F(RendezvousServerTest, TokensAreChecked) {
  RendezvousServerOptions o;
  o.token = "short";
  EXPECT_THROW(RendezvousServer{o}, Error);
}

TEST_F(RendezvousServerTest, APortInUseIsNamed) {
  start(2);
  RendezvousServerOptions o;
  o.token = kToken;
  o.listen = server_->address();
  try {
    const RendezvousServer second(o);
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(server_->address().text()), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("started twice"), std::string::npos) << error.what();
  }
}

TEST_F(RendezvousServerTest, GarbageClosesItsConnectionAlone) {
  start(2);
  const std::string no_length(4, '\0');
  const std::string long_length = "\xff\xff\xff\xff";
  const std::string medium("\0\x10\0\0", 4);  // 4096: too long before the token
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), no_length, long_length, medium,
        FrameWriter().number(1).text("key").frame(RendezvousKind::kGet),
        FrameWriter().frame(RendezvousKind::kHello), FrameWriter().frame(RendezvousKind::kLeave),
        join_frame(request(0, 2), 1)}) {
    EXPECT_EQ(answer(stranger(bytes)), "");
  }
  expect_alive();
}

TEST_F(RendezvousServerTest, DamagedFramesOfAMemberCloseItsConnectionAlone) {
  start(2);
  const std::string welcome = FrameWriter().frame(RendezvousKind::kWelcome);
  const std::string all_ones(4, '\xff');
  for (const std::string& bytes :
       {FrameWriter().number(1).frame(RendezvousKind::kJoin),
        FrameWriter().text("key").frame(RendezvousKind::kSet),
        FrameWriter().number(0x7fffffff).frame(RendezvousKind::kSet),
        FrameWriter().text(std::string(5000, 'k')).text("").frame(RendezvousKind::kSet),
        FrameWriter().number(1).frame(RendezvousKind::kGet),
        FrameWriter().number(1).number(2).frame(RendezvousKind::kCancel),
        lost_frame(RendezvousKind::kReportLost, 9, 0, "out of range"),
        lost_frame(RendezvousKind::kReportLost, -1, 0, "out of range"),
        FrameWriter().frame(RendezvousKind::kWorld),
        FrameWriter().frame(static_cast<RendezvousKind>(200)), hello_frame(kToken), all_ones}) {
    EXPECT_EQ(answer(stranger(hello_frame(kToken) + bytes)), welcome);
  }
  expect_alive();
}

TEST_F(RendezvousServerTest, WhoSaysNothingIsCutOff) {
  start(2, 0.2);
  const FileDescriptor silent = stranger("");
  const FileDescriptor half = stranger(hello_frame(kToken).substr(0, 10));
  EXPECT_EQ(answer(silent), "");
  EXPECT_EQ(answer(half), "");
  EXPECT_NE(log().find("no run token within 0.2 s"), std::string::npos) << log();
}

TEST_F(RendezvousServerTest, ACrowdDoesNotKeepRanksOut) {
  start(2);
  std::vector<FileDescriptor> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(stranger("\x10"));
  expect_alive();
  EXPECT_EQ(answer(crowd.front()), "");  // the oldest had to go
  EXPECT_NE(log().find("too many connections"), std::string::npos) << log();
}

TEST_F(RendezvousServerTest, TheFrameMayComeInPieces) {
  start(2);
  const FileDescriptor fd = stranger("");
  for (const char c : hello_frame(kToken)) {
    send_all(fd, std::string(1, c));
  }
  send_all(fd, std::string(4, '\0'));
  EXPECT_EQ(answer(fd), FrameWriter().frame(RendezvousKind::kWelcome));
}

TEST_F(RendezvousServerTest, ValuesHaveALimit) {
  start(2);
  const auto rank = member();
  rank->set("large", std::string(kMaxRendezvousFrame - 100, 'x'));
  EXPECT_EQ(rank->get("large", kSeconds).size(), kMaxRendezvousFrame - 100);
  EXPECT_THROW(rank->set("larger", std::string(kMaxRendezvousFrame, 'x')), Error);
  expect_alive();
}

TEST_F(RendezvousServerTest, WhoDoesNotReadIsCutOffAlone) {
  start(2);
  const auto rank = member();
  rank->set("large", std::string(kMaxRendezvousFrame - 100, 'x'));
  const std::string get = FrameWriter().number(1).text("large").frame(RendezvousKind::kGet);
  std::string many = hello_frame(kToken);
  for (int i = 0; i < 32; ++i) many += get;  // 128 MiB of answers
  const FileDescriptor deaf = stranger(many);
  const Deadline deadline(kSeconds);
  while (log().find("does not read") == std::string::npos && !deadline.passed())
    ::poll(nullptr, 0, 5);
  EXPECT_NE(log().find("does not read"), std::string::npos);
  expect_alive();
}

TEST_F(RendezvousServerTest, NoServerIsSaidSo) {
  start(2);
  const HostPort address = server_->address();
  server_.reset();
  try {
    const TcpRendezvous rank(address, kToken, 0.3);
    FAIL() << "nobody listens";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no rendezvous at " + address.text()), std::string::npos) << text;
    EXPECT_EQ(error.kind(), Error::Kind::kRuntime);
  }
}

class NewsOfTheEnd : public MembershipSink {
 public:
  void on_member_lost(Rank rank, uint32_t, const std::string&) override { lost.push_back(rank); }
  void on_member_joined(Rank, const Member&) override {}
  void on_rendezvous_lost(const std::string& text) override { ++ends, why = text; }
  std::vector<Rank> lost;
  int ends = 0;
  std::string why;
};

TEST_F(RendezvousServerTest, TheEndOfTheServerIsNewsOnce) {
  start(1);
  const auto rank = member();
  rank->join(request(0, 1), kSeconds);
  server_.reset();
  NewsOfTheEnd news;
  const Deadline deadline(kSeconds);
  while (news.ends == 0 && wait_ready(rank->event_fd(), POLLIN, deadline)) rank->poll(news);
  EXPECT_EQ(news.ends, 1);
  EXPECT_EQ(rank->poll(news), 0);
  EXPECT_EQ(news.ends, 1);
  EXPECT_FALSE(wait_ready(rank->event_fd(), POLLIN, Deadline(0)));  // nothing more to say
  EXPECT_THROW(rank->set("a", "b"), Error);
  EXPECT_THROW(rank->get("a", kSeconds), Error);
  rank->leave();  // does nothing, and does not wait
}

TEST_F(RendezvousServerTest, ThePartnerIsToldOfARankThatEndsTogetherWithTheServer) {
  start(2);
  auto other = std::async(std::launch::async, [this] {
    auto rank = member();
    rank->join(request(1, 2), kSeconds);
    return rank;
  });
  auto rank = member();
  rank->join(request(0, 2), kSeconds);
  const auto partner = other.get();
  rank.reset();  // as in a rank 0 that hosts the server and fails
  server_.reset();
  NewsOfTheEnd news;
  const Deadline deadline(kSeconds);
  while (news.ends == 0 && wait_ready(partner->event_fd(), POLLIN, deadline)) partner->poll(news);
  EXPECT_EQ(news.lost, std::vector<Rank>{0});
  EXPECT_EQ(news.ends, 1);
}

TEST_F(RendezvousServerTest, ARankThatDiesBeforeAllAreThereFailsAll) {
  start(3);
  auto other = std::async(std::launch::async, [this]() -> std::string {
    const auto rank = member();
    try {
      rank->join(request(0, 3), kSeconds);
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  });
  {
    const FileDescriptor dying = stranger(hello_frame(kToken) + join_frame(request(2, 3), 60));
    pollfd entry{dying.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60000), 1);  // welcome: it has been read
    send_all(dying, FrameWriter().number(1).text("").frame(RendezvousKind::kGet));
  }
  const std::string text = other.get();
  EXPECT_NE(text.find("rank 2 (process 102 on host) is gone before all ranks were there"),
            std::string::npos)
      << text;
}

// What the launcher knows reaches ranks that wait, also of a rank that never came.
TEST_F(RendezvousServerTest, TheLauncherSaysHowARankEnded) {
  start(2);
  auto other = std::async(std::launch::async, [this]() -> std::string {
    const auto rank = member();
    try {
      rank->join(request(0, 2), kSeconds);
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  });
  server_->process_ended(1, 4711, "was killed by signal 9 (Killed)", Error::Kind::kRuntime);
  const std::string text = other.get();
  EXPECT_NE(text.find("rank 1 (process 4711)"), std::string::npos) << text;
  EXPECT_NE(text.find("signal 9 (Killed)"), std::string::npos) << text;
}

}  // namespace
}  // namespace kinet
