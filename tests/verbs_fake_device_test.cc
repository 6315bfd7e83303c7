// ctest: labels=unit,core timeout=120
//
// The whole verbs transport over devices of imagination: what it calls and in which order, and what
// it makes of refusals and failures that a real device shows seldom.
#include <gmock/gmock.h>

#include "tests/rdma_vm/verbs_pair.h"
#include "tests/verbs_fake.h"

namespace kinet {
namespace {

using fake::world;
using testing::HasSubstr;

class VerbsFake : public testing::Test {
 protected:
  void SetUp() override {
    world().calls.clear();
    world().inline_limit = 512;
    world().open_denied = world().no_memory = world().port_down = world().no_device = false;
    world().refused_state = -1;
  }
  static size_t count(const std::string& call) {
    return static_cast<size_t>(std::count(world().calls.begin(), world().calls.end(), call));
  }
  static size_t position(const std::string& call) {
    return static_cast<size_t>(std::find(world().calls.begin(), world().calls.end(), call) -
                               world().calls.begin());
  }
  static size_t last_position(const std::string& call) {
    const auto it = std::find(world().calls.rbegin(), world().calls.rend(), call);
    return static_cast<size_t>(world().calls.rend() - it) - 1;
  }
  template <class Action>
  static std::string error_of(Action action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

void exchange(VerbsPair& pair, size_t bytes, uint32_t count) {
  TestMemory source(*pair.ranks[0], bytes * count), target(*pair.ranks[1], bytes * count);
  source.fill(3);
  const uint64_t messages = pair.logs[0].messages, arrived = pair.logs[1].arrived;
  const uint64_t completed = pair.logs[0].completed;
  for (uint32_t i = 0; i < count; ++i) {
    pair.put(0, make_put(source, i * bytes, target, i * bytes, bytes, i, i + 1 == count));
    pair.send(1, std::span(source.data(), std::min(bytes, kMaxMessage)));
  }
  pair.until("all", [&] {
    return pair.logs[0].messages >= messages + count && pair.logs[1].arrived >= arrived + count &&
           pair.logs[0].completed >= completed + count;
  });
  EXPECT_EQ(0, std::memcmp(source.data(), target.data(), bytes * count));
}

TEST_F(VerbsFake, ForkSafetyComesBeforeAnythingElse) {
  const VerbsPair pair;
  ASSERT_EQ(world().first_calls.size(), 3U);
  EXPECT_EQ(world().first_calls[0], "is_fork_initialized");
  EXPECT_EQ(world().first_calls[1], "fork_init");
  EXPECT_EQ(world().first_calls[2], "get_device_list");
}

TEST_F(VerbsFake, EverythingArrivesAndNobodyIsEverNotReady) {
  for (const char* knobs :
       {"", "use_srq: false", "queue_pairs: 3", "max_piece: 4096 send_depth: 16",
        "receive_depth: 32 send_depth: 16", "inline: 0 signal_every: 1"}) {
    SCOPED_TRACE(knobs);
    VerbsPair pair(knobs);
    pair.connect();
    exchange(pair, 100, 400);
    exchange(pair, 10000, 50);
    pair.ranks[0]->disconnect(1);
    pair.until("the goodbye", [&] { return pair.logs[1].lost == 1; });
    EXPECT_THAT(pair.logs[1].why, HasSubstr("closed"));
  }
  EXPECT_EQ(count("receiver not ready"), 0U);
}

TEST_F(VerbsFake, ReceivesArePostedBeforeTheLinkOpensAlsoAgain) {
  VerbsPair pair("use_srq: false receive_depth: 64");
  for (int round = 0; round < 2; ++round) {
    world().calls.clear();
    pair.logs[0].connected = pair.logs[1].connected = 0;
    pair.connect();
    EXPECT_GE(count("post_recv"), 128U);
    const std::vector<std::string> before(
        world().calls.begin(), world().calls.begin() + static_cast<long>(position("RTR")));
    EXPECT_EQ(std::count(before.begin(), before.end(), "post_recv"), 128);
    EXPECT_LT(last_position("RTS"), world().calls.size());
    pair.ranks[0]->disconnect(1);
    pair.until("the loss", [&] { return pair.logs[1].lost == round + 1; });
    pair.ranks[1]->disconnect(0);
  }
}

TEST_F(VerbsFake, SharedReceivesArePostedFirst) {
  VerbsPair pair;
  pair.connect();
  EXPECT_LT(position("post_srq_recv"), position("RTR"));
  EXPECT_LT(position("RTS"), position("post_send"));
}

TEST_F(VerbsFake, InlineTakesWhatIsGranted) {
  for (const int limit : {0, 64, 101, 988}) {
    SCOPED_TRACE(limit);
    world().inline_limit = limit;
    VerbsPair pair;
    pair.connect();
    const size_t granted = pair.ranks[0]->capabilities().inline_bytes;
    EXPECT_LE(granted, static_cast<size_t>(limit));
    EXPECT_EQ(granted == 0, limit == 0);
    exchange(pair, granted + 1, 3);
    if (granted > 0) exchange(pair, granted, 3);
  }
}

TEST_F(VerbsFake, ADeviceThatMayNotBeOpenedIsNoDevice) {
  world().open_denied = true;
  const std::string error = error_of([] { VerbsPair pair; });
  EXPECT_THAT(error, HasSubstr("Permission denied"));
  const TransportType* type = TransportRegistry::instance().find("verbs");
  const TransportProbe probe = type->probe(Params(nullptr, type->fields));
  EXPECT_FALSE(probe.works);
  EXPECT_THAT(probe.remedy, HasSubstr("/dev/infiniband"));
  world().open_denied = false;
  world().port_down = true;
  EXPECT_THAT(error_of([] { VerbsPair pair; }), HasSubstr("rxe0 port 1: DOWN"));
  world().no_device = true;
  EXPECT_THAT(type->probe(Params(nullptr, type->fields)).summary, HasSubstr("no RDMA device"));
}

TEST_F(VerbsFake, NoLockedMemoryIsToldWithItsLimit) {
  world().no_memory = true;
  EXPECT_THAT(error_of([] { VerbsPair pair; }), HasSubstr("cannot register"));
}

TEST_F(VerbsFake, ARefusedTransitionTellsAllOfIt) {
  VerbsPair pair;
  world().refused_state = IBV_QPS_RTR;
  pair.offer_and_connect();
  pair.until("the losses", [&] { return pair.logs[0].lost == 1 && pair.logs[1].lost == 1; });
  for (const char* part : {"to RTR", "path_mtu 4096", "dgid 10.0.0.2", "sgid_index 1", "hop_limit",
                           "Invalid argument"}) {
    EXPECT_THAT(pair.logs[0].why, HasSubstr(part));
  }
  world().refused_state = IBV_QPS_INIT;
  EXPECT_THAT(error_of([&] { pair.ranks[0]->offer(1); }), HasSubstr("to INIT"));
}

TEST_F(VerbsFake, OneMessageForAHundredFailures) {
  VerbsPair pair;
  pair.connect();
  const uint32_t number = world().pairs.begin()->first;
  fake::Pair& broken = *world().pairs.at(number);
  world().pairs.at(broken.there)->at = IBV_QPS_ERR;  // the peer is dead: nothing is answered
  std::array<std::byte, 64> message{};
  for (int i = 0; i < 100; ++i) ASSERT_EQ(pair.ranks[0]->send(1, message), Post::kAccepted);
  fake::time_out(number);
  pair.until("the loss", [&] { return pair.logs[0].lost > 0; });
  for (int i = 0; i < 20; ++i) pair.ranks[0]->poll(pair.logs[0]);
  EXPECT_EQ(pair.logs[0].lost, 1);
  EXPECT_EQ(pair.logs[0].after_loss, 0);
  EXPECT_THAT(pair.logs[0].why, HasSubstr("no answer within"));
  EXPECT_EQ(pair.ranks[0]->counters().flushed, 99U);
  EXPECT_EQ(pair.ranks[0]->send(1, message), Post::kPeerLost);
}

TEST_F(VerbsFake, AGreetingThatNobodyAnswersIsSentAgain) {
  VerbsPair pair;
  const std::string from_0 = pair.ranks[0]->offer(1), from_1 = pair.ranks[1]->offer(0);
  pair.ranks[0]->connect(1, 0, from_1);
  const uint32_t number = world().pairs.begin()->first;
  for (int i = 0; i < 3; ++i) {
    fake::time_out(number);
    pair.poll();
    EXPECT_EQ(pair.logs[0].lost, 0) << pair.logs[0].why;
  }
  EXPECT_EQ(count("RESET"), 3U);
  pair.ranks[1]->connect(0, 0, from_0);
  pair.until("the link", [&] { return pair.logs[0].connected + pair.logs[1].connected == 2; });
  exchange(pair, 1000, 10);
}

TEST_F(VerbsFake, AHandlerMayEndTheLinkAndBeginAnother) {
  VerbsPair pair;
  pair.connect();
  std::array<std::byte, 8> message{};
  for (int i = 0; i < 10; ++i) pair.send(0, message);
  pair.logs[1].when_message = [&](std::span<const std::byte>) {
    if (pair.logs[1].messages == 3) pair.ranks[1]->disconnect(0);
  };
  pair.until("the goodbye", [&] { return pair.logs[0].lost == 1; });
  EXPECT_EQ(pair.logs[1].messages, 3U);
  EXPECT_EQ(pair.ranks[1]->send(0, message), Post::kPeerLost);
  pair.logs[0].connected = pair.logs[1].connected = 0;
  pair.connect();
  exchange(pair, 64, 300);  // all receives are there again
}

}  // namespace
}  // namespace kinet
