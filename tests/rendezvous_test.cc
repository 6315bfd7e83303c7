// What every rendezvous does, whether its ranks are threads of one process or talk over TCP.
// ctest: labels=unit,core,threads timeout=120
#include "comm/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>

#include "comm/local_rendezvous.h"
#include "comm/rendezvous_server.h"
#include "comm/tcp_rendezvous.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kSeconds = 60;  // for what has to come
constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

// Makes the members of one run.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual std::unique_ptr<Rendezvous> member() = 0;
};

class LocalMeeting : public Meeting {
 public:
  explicit LocalMeeting(int size) : store_(std::make_shared<LocalStore>(size)) {}
  std::unique_ptr<Rendezvous> member() override {
    return std::make_unique<LocalRendezvous>(store_);
  }

 private:
  std::shared_ptr<LocalStore> store_;
};

class TcpMeeting : public Meeting {
 public:
  explicit TcpMeeting(int size) : server_(options(size)) {}
  std::unique_ptr<Rendezvous> member() override {
    return std::make_unique<TcpRendezvous>(server_.address(), kToken, kSeconds);
  }

 private:
  static RendezvousServerOptions options(int size) {
    RendezvousServerOptions o;
    o.size = size;
    o.token = kToken;
    return o;
  }
  RendezvousServer server_;
};

JoinRequest request(Rank rank, int size, const std::string& solver = "ab12") {
  JoinRequest r;
  r.rank = rank;
  r.size = size;
  r.node = "node";
  r.host = "host" + std::to_string(rank);
  r.process = 100 + rank;
  r.fingerprint = {{"build", "1"}, {"solver", solver}};
  return r;
}

// Collects news as lines.
class News : public MembershipSink {
 public:
  void on_member_lost(Rank rank, uint32_t incarnation, const std::string& why) override {
    lines.push_back("lost " + std::to_string(rank) + "/" + std::to_string(incarnation));
    reasons.push_back(why);
  }
  void on_member_joined(Rank rank, const Member& member) override {
    lines.push_back("joined " + std::to_string(rank) + "/" + std::to_string(member.incarnation));
  }
  void on_rendezvous_lost(const std::string& why) override {
    lines.emplace_back("no rendezvous");
    reasons.push_back(why);
  }

  std::vector<std::string> lines, reasons;
};

// Waits as a program does: asleep on the descriptor until there are `count` news.
std::vector<std::string> news_of(Rendezvous& rendezvous, size_t count) {
  News news;
  const Deadline deadline(kSeconds);
  while (news.lines.size() < count && wait_ready(rendezvous.event_fd(), POLLIN, deadline)) {
    rendezvous.poll(news);
  }
  return news.lines;
}

using Lines = std::vector<std::string>;

class RendezvousTest : public testing::TestWithParam<const char*> {
 protected:
  void start(int size) {
    if (std::string(GetParam()) == "local") {
      meeting_ = std::make_unique<LocalMeeting>(size);
    } else {
      meeting_ = std::make_unique<TcpMeeting>(size);
    }
  }

  struct Joined {
    std::unique_ptr<Rendezvous> rendezvous;
    World world;
    std::string error;
    Error::Kind kind{};
  };

  std::future<Joined> join_later(const JoinRequest& r, double timeout = kSeconds) {
    return std::async(std::launch::async, [this, r, timeout] {
      Joined joined;
      try {
        joined.rendezvous = meeting_->member();
        joined.world = joined.rendezvous->join(r, timeout);
      } catch (const Error& error) {
        joined.error = error.what();
        joined.kind = error.kind();
      }
      return joined;
    });
  }

  // All join; none may fail.
  std::vector<Joined> join_all(int size) {
    std::vector<std::future<Joined>> coming;
    for (int r = 0; r < size; ++r) coming.push_back(join_later(request(r, size)));
    std::vector<Joined> all;
    for (auto& future : coming) {
      all.push_back(future.get());
      EXPECT_EQ(all.back().error, "");
    }
    return all;
  }

  std::unique_ptr<Meeting> meeting_;
};

TEST_P(RendezvousTest, AllRanksGetTheSameWorld) {
  start(3);
  const auto all = join_all(3);
  for (int r = 0; r < 3; ++r) {
    const World& world = all[r].world;
    EXPECT_EQ(world.rank, r);
    EXPECT_EQ(world.size, 3);
    EXPECT_EQ(world.token, all[0].world.token);
    EXPECT_GE(world.token.size(), 16U);
    ASSERT_EQ(world.members.size(), 3U);
    EXPECT_EQ(world.members[2].host, "host2");
    EXPECT_EQ(world.members[1].process, 101);
    EXPECT_EQ(world.members[1].incarnation, 0U);
    EXPECT_EQ(world.local_rank(), r);
  }
}

TEST_P(RendezvousTest, RanksThatDoNotSayWhichAreNumbered) {
  start(3);
  std::vector<std::future<Joined>> coming;
  for (int i = 0; i < 3; ++i) coming.push_back(join_later(request(-1, 3)));
  std::vector<int> seen(3, 0);
  for (auto& future : coming) {
    const Joined joined = future.get();
    ASSERT_EQ(joined.error, "");
    ++seen[joined.world.rank];
  }
  EXPECT_EQ(seen, (std::vector<int>{1, 1, 1}));
}

TEST_P(RendezvousTest, MissingRanksAreNamed) {
  start(4);
  auto one = join_later(request(1, 4), 0.3);
  const Joined first = one.get();
  EXPECT_NE(first.error.find("did not come within 0.3 s: 0, 2, 3"), std::string::npos)
      << first.error;
  EXPECT_EQ(first.kind, Error::Kind::kRuntime);
  const Joined late = join_later(request(2, 4)).get();  // hears at once that the run failed
  EXPECT_EQ(late.error, first.error);
}

TEST_P(RendezvousTest, ARankThatIsThereTwiceFailsAll) {
  start(3);
  auto one = join_later(request(0, 3));
  auto two = join_later(request(0, 3));
  const Joined a = one.get(), b = two.get();
  EXPECT_NE(a.error.find("rank 0 is there twice"), std::string::npos) << a.error;
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.kind, Error::Kind::kUser);
}

TEST_P(RendezvousTest, AnotherSizeFailsAll) {
  start(2);
  auto one = join_later(request(0, 2));
  auto two = join_later(request(1, 3));
  const Joined a = one.get(), b = two.get();
  EXPECT_NE(a.error.find("size"), std::string::npos) << a.error;
  EXPECT_NE(a.error.find('3'), std::string::npos) << a.error;
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(b.kind, Error::Kind::kUser);
}

TEST_P(RendezvousTest, ARankOutsideOfTheRunFailsAll) {
  start(2);
  auto one = join_later(request(0, 2));
  const Joined b = join_later(request(7, 2)).get();
  EXPECT_NE(b.error.find("rank 7 of a run of 2 ranks"), std::string::npos) << b.error;
  EXPECT_EQ(one.get().error, b.error);
}

TEST_P(RendezvousTest, TheFirstDifferenceIsToldToAll) {
  start(3);
  std::vector<std::future<Joined>> coming;
  for (int r = 0; r < 3; ++r) {
    coming.push_back(join_later(request(r, 3, r == 2 ? "cd34" : "ab12")));
  }
  for (auto& future : coming) {
    const Joined joined = future.get();
    EXPECT_EQ(joined.error, "the ranks differ: solver: rank 2 has cd34, rank 0 has ab12");
    EXPECT_EQ(joined.kind, Error::Kind::kUser);
  }
}

TEST_P(RendezvousTest, KeysAreWaitedForAndNamed) {
  start(2);
  auto all = join_all(2);
  auto waiting =
      std::async(std::launch::async, [&] { return all[1].rendezvous->get("link/0/1", kSeconds); });
  all[0].rendezvous->set("other", std::string("\0with a zero", 12));
  all[0].rendezvous->set("link/0/1", "address");
  EXPECT_EQ(waiting.get(), "address");
  EXPECT_EQ(all[0].rendezvous->get("other", kSeconds), std::string("\0with a zero", 12));
  all[1].rendezvous->set("link/0/1", "another");
  EXPECT_EQ(all[1].rendezvous->get("link/0/1", kSeconds), "another");
  try {
    all[0].rendezvous->get("nothing", 0.05);
    FAIL() << "nobody set that";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nobody set 'nothing'"), std::string::npos);
    EXPECT_EQ(error.kind(), Error::Kind::kRuntime);
  }
  EXPECT_EQ(all[0].rendezvous->get("link/0/1", kSeconds), "another");  // not the late answer
}

TEST_P(RendezvousTest, WhoGoesWithoutLeavingIsLost) {
  start(3);
  auto all = join_all(3);
  all[2].rendezvous.reset();
  EXPECT_EQ(news_of(*all[0].rendezvous, 1), Lines{"lost 2/0"});
  EXPECT_EQ(news_of(*all[1].rendezvous, 1), Lines{"lost 2/0"});
}

TEST_P(RendezvousTest, WhoHasLeftIsNoLoss) {
  start(3);
  auto all = join_all(3);
  all[2].rendezvous->leave();
  all[0].rendezvous->report_lost(2, 0, "its link closed");  // true, and no loss
  all[0].rendezvous->set("key", "");
  all[0].rendezvous->get("key", kSeconds);  // the report has been seen
  all[2].rendezvous.reset();
  all[1].rendezvous.reset();  // the first news is of this one
  EXPECT_EQ(news_of(*all[0].rendezvous, 1), Lines{"lost 1/0"});
}

TEST_P(RendezvousTest, ALossIsToldToAllAndToTheLostOnce) {
  start(3);
  auto all = join_all(3);
  all[0].rendezvous->report_lost(1, 0, "no heartbeat");
  all[2].rendezvous->report_lost(1, 0, "no heartbeat either");
  for (int r = 0; r < 3; ++r) EXPECT_EQ(news_of(*all[r].rendezvous, 1), Lines{"lost 1/0"});
  // What the lost one still says counts for nothing.
  all[1].rendezvous->report_lost(0, 0, "revenge");
  all[0].rendezvous->set("key", "of rank 0");
  EXPECT_EQ(all[1].rendezvous->get("key", kSeconds), "of rank 0");
  all[1].rendezvous->set("key", "of the dead");
  EXPECT_EQ(all[1].rendezvous->get("key", kSeconds), "of rank 0");
  all[1].rendezvous.reset();
  all[2].rendezvous.reset();
  EXPECT_EQ(news_of(*all[0].rendezvous, 1), Lines{"lost 2/0"});
  EXPECT_EQ(all[0].rendezvous->get("key", kSeconds), "of rank 0");
}

TEST_P(RendezvousTest, ASuccessorHasTheNextIncarnationAndAllAreTold) {
  start(2);
  auto all = join_all(2);
  for (uint32_t incarnation = 1; incarnation < 4; ++incarnation) {
    all[1].rendezvous.reset();
    const std::string n = std::to_string(incarnation), before = std::to_string(incarnation - 1);
    EXPECT_EQ(news_of(*all[0].rendezvous, 1), Lines{"lost 1/" + before});
    all[1] = join_later(request(-1, 2)).get();
    ASSERT_EQ(all[1].error, "");
    EXPECT_EQ(all[1].world.rank, 1);
    EXPECT_EQ(all[1].world.members[1].incarnation, incarnation);
    EXPECT_EQ(all[1].world.members[0].incarnation, 0U);
    EXPECT_EQ(news_of(*all[0].rendezvous, 1), Lines{"joined 1/" + n});
  }
  News news;
  EXPECT_EQ(all[1].rendezvous->poll(news), 0);  // nothing of before its time, nor of itself
}

TEST_P(RendezvousTest, WhatANewcomerDoesWrongIsItsOwn) {
  start(2);
  auto all = join_all(2);
  EXPECT_NE(join_later(request(1, 2)).get().error.find("rank 1 is there twice"), std::string::npos);
  all[1].rendezvous.reset();
  EXPECT_EQ(news_of(*all[0].rendezvous, 1), Lines{"lost 1/0"});
  const Joined other = join_later(request(1, 2, "ffff")).get();
  EXPECT_EQ(other.error, "the ranks differ: solver: rank 1 has ffff, rank 0 has ab12");
  all[1] = join_later(request(1, 2)).get();
  EXPECT_EQ(all[1].error, "");
  EXPECT_EQ(news_of(*all[0].rendezvous, 1), Lines{"joined 1/1"});
}

TEST_P(RendezvousTest, ASuccessorWaitsUntilAllAreThere) {
  start(3);
  auto all = join_all(3);
  all[1].rendezvous.reset();
  all[2].rendezvous.reset();
  EXPECT_EQ(news_of(*all[0].rendezvous, 2).size(), 2U);
  auto one = join_later(request(1, 3));
  auto two = join_later(request(2, 3));
  EXPECT_EQ(one.get().error, "");
  EXPECT_EQ(two.get().error, "");
}

TEST_P(RendezvousTest, ASuccessorThatWaitsInVainIsLostAgain) {
  start(3);
  auto all = join_all(3);
  all[1].rendezvous.reset();
  all[2].rendezvous.reset();
  EXPECT_EQ(news_of(*all[0].rendezvous, 2).size(), 2U);
  const Joined late = join_later(request(1, 3), 0.2).get();
  EXPECT_NE(late.error.find("did not come within 0.2 s: 2"), std::string::npos) << late.error;
  EXPECT_EQ(news_of(*all[0].rendezvous, 2), (Lines{"joined 1/1", "lost 1/1"}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RendezvousTest, testing::Values("local", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace kinet
