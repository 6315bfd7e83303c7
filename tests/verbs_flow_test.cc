// ctest: labels=unit,core timeout=60
//
// How the verbs transport keeps its queues, without a device: credits, send windows, failures, and
// what travels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "comm/verbs/credits.h"
#include "comm/verbs/failure.h"
#include "comm/verbs/memory_key.h"
#include "comm/verbs/offer.h"
#include "comm/verbs/proof.h"
#include "comm/verbs/send_window.h"
#include "comm/verbs/wire.h"
#include "src/base/siphash.h"

namespace kinet::verbs {
namespace {

using testing::HasSubstr;
using testing::Not;

// ---- credits ------------------------------------------------------------------------------------

// Two ranks joined by wires; each counts the receives that it has left, and never may run out.
struct CreditPair {
  struct Side {
    Credits credits;
    int receives;
    std::deque<int> wire;  // arriving messages: credits that come along, -1: none can
  };
  explicit CreditPair(int grant)
      : sides{Side{{grant, grant}, grant + 1, {}}, Side{{grant, grant}, grant + 1, {}}} {}

  bool send(int from) {
    Side& s = sides[from];
    if (!s.credits.has(1)) return false;
    s.credits.use(1);
    sides[1 - from].wire.push_back(s.credits.take_owed());
    return true;
  }
  bool put(int from) {  // carries no credits
    Side& s = sides[from];
    if (!s.credits.has(1)) return false;
    s.credits.use(1);
    sides[1 - from].wire.push_back(0);
    return true;
  }
  void give_back(int side) {
    Side& s = sides[side];
    if (!s.credits.return_is_due() || !s.credits.may_return()) return;
    s.credits.use_for_return();
    sides[1 - side].wire.push_back(s.credits.take_owed());
    ++returns;
  }
  bool receive(int side) {
    Side& s = sides[side];
    if (s.wire.empty()) return false;
    EXPECT_GT(s.receives--, 0) << "receiver not ready";
    s.credits.refill(s.wire.front());
    s.wire.pop_front();
    ++s.receives;
    s.credits.reposted();
    give_back(side);
    return true;
  }
  std::array<Side, 2> sides;
  int returns = 0;
};

TEST(VerbsCredits, ASenderThatOutrunsItsReceiverStops) {
  CreditPair pair(16);
  int sent = 0;
  for (int i = 0; i < 160; ++i) sent += pair.send(0) ? 1 : 0;
  EXPECT_EQ(sent, 16);
  while (sent < 160) {
    while (pair.receive(1)) {
    }
    while (pair.receive(0)) {
    }
    while (sent < 160 && pair.send(0)) ++sent;
  }
  EXPECT_LE(pair.returns, 160 / 8 + 1);
}

// Both flood each other with puts, which carry no credits, and receive in a random order.
TEST(VerbsCredits, TwoFloodsNeverLockUpNorOverrun) {
  for (const int grant : {4, 5, 16, 255}) {
    CreditPair pair(grant);
    std::array<int, 2> sent{};
    uint32_t dice = 12345;
    for (int step = 0; step < 200000 && (sent[0] < 5000 || sent[1] < 5000); ++step) {
      dice = dice * 1664525 + 1013904223;
      const int side = static_cast<int>(dice >> 31);
      if ((dice >> 20 & 3) != 0) {
        if (sent[side] < 5000 && pair.put(side)) ++sent[side];
      } else {
        pair.receive(side);
      }
      pair.give_back(side);
    }
    EXPECT_EQ(sent[0], 5000) << grant;
    EXPECT_EQ(sent[1], 5000) << grant;
  }
}

TEST(VerbsCredits, ReturnsDoNotAnswerReturns) {
  CreditPair pair(8);
  for (int i = 0; i < 8; ++i) pair.put(0);
  for (int i = 0; i < 100; ++i) {
    pair.receive(0);
    pair.receive(1);
  }
  EXPECT_LE(pair.returns, 3);
  EXPECT_TRUE(pair.sides[0].credits.has(7));
}

// ---- windows ------------------------------------------------------------------------------------

TEST(VerbsWindow, FewAreSignalledAndAFullWindowAlwaysHasOneUnderWay) {
  for (const auto& [depth, every] : {std::pair{128, 32}, {16, 8}, {64, 16}}) {
    SendWindow window(depth, every);
    int signalled = 0;
    std::deque<uint64_t> signals;
    for (int i = 0; i < 1000; ++i) {
      while (!window.has_room(1)) {
        ASSERT_TRUE(window.waits_for_signal());
        window.complete(signals.front());
        signals.pop_front();
      }
      if (window.post(false)) {
        ++signalled;
        signals.push_back(window.posted());
      }
    }
    EXPECT_EQ(signalled, 1000 / every);
  }
}

TEST(VerbsWindow, AFlushIsSignalledAndTheCountBeginsAnew) {
  SendWindow window(32, 8);
  EXPECT_FALSE(window.post(false));
  EXPECT_TRUE(window.post(true));
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(window.post(false));
  EXPECT_TRUE(window.post(false));
  window.complete(2);
  EXPECT_EQ(window.room(), 32U - 8U);
  window.complete(1);  // an older one changes nothing
  EXPECT_EQ(window.completed(), 2U);
}

// ---- failures -----------------------------------------------------------------------------------

ibv_wc failed_with(ibv_wc_status status) {
  ibv_wc done{};
  done.status = status;
  return done;
}

LinkNames names_of_test() {
  LinkNames names;
  names.peer = 2;
  names.peer_host = "node7";
  names.own_end = "rxe0 port 1, GID 1 (10.77.0.1, RoCE v2), queue pair 17";
  names.peer_end = "rxe1 port 1, 10.77.0.2, queue pair 18";
  names.port_state = "ACTIVE";
  names.give_up_seconds = 1.88;
  names.timeout = 16;
  names.retries = 6;
  return names;
}

TEST(VerbsFailure, OneMessageForAHundredCompletions) {
  FailureLog log;
  int messages = log.add(failed_with(IBV_WC_RETRY_EXC_ERR)) ? 1 : 0;
  for (int i = 0; i < 100; ++i) messages += log.add(failed_with(IBV_WC_WR_FLUSH_ERR)) ? 1 : 0;
  EXPECT_EQ(messages, 1);
  EXPECT_TRUE(log.failed());
  EXPECT_EQ(log.status(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(log.flushed(), 100U);
}

TEST(VerbsFailure, AFlushMayBeTheFirstSign) {
  FailureLog log;
  EXPECT_TRUE(log.add(failed_with(IBV_WC_WR_FLUSH_ERR)));
  LinkNames names = names_of_test();
  names.port_state = "DOWN";
  EXPECT_THAT(explain(failed_with(IBV_WC_WR_FLUSH_ERR), names), HasSubstr("own port is DOWN"));
}

TEST(VerbsFailure, TheMessageNamesPeerAddressesTimeAndCauses) {
  const std::string text = explain(failed_with(IBV_WC_RETRY_EXC_ERR), names_of_test());
  for (const char* part : {"rank 2", "node7", "10.77.0.1", "10.77.0.2", "1.88 s", "7 tries",
                           "has ended", "MTU", "GID", "4791", "status 12"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(explain(failed_with(IBV_WC_RNR_RETRY_EXC_ERR), names_of_test()),
              HasSubstr("internal error"));
}

TEST(VerbsFailure, RegistrationTellsSizeTotalLimitAndRemedy) {
  const std::string text = registration_error(64 << 20, 12 << 20, ENOMEM, 64 << 10);
  for (const char* part : {"64 MiB", "12 MiB", "64 KiB", "ulimit -l", "limits.d", "container"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(registration_error(1, 0, ENOMEM, ~0ULL), HasSubstr("not limited"));
  EXPECT_THAT(registration_error(1, 0, EFAULT, 64), Not(HasSubstr("ulimit")));
}

// ---- what travels -------------------------------------------------------------------------------

TEST(VerbsWire, TagsAndRequestsComeBackAsTheyWere) {
  const MessageTag tag = unpack(pack(MessageTag{MessageKind::kPieces, kMostPieces, 16383}));
  EXPECT_EQ(tag.kind, MessageKind::kPieces);
  EXPECT_EQ(tag.pieces, kMostPieces);
  EXPECT_EQ(tag.credits, 16383U);
  const RequestId id = unpack_request(pack(RequestId{RequestKind::kSend, 16383, 63, 1023, ~0U}));
  EXPECT_EQ(id.kind, RequestKind::kSend);
  EXPECT_EQ(id.rank, 16383);
  EXPECT_EQ(id.lane, 63);
  EXPECT_EQ(id.epoch, 1023U);
  EXPECT_EQ(id.number, ~0U);
  EXPECT_EQ(unpack_request(5000).kind, RequestKind::kReceive);
  EXPECT_EQ(full_number(3, 0xFFFFFFFEULL), 0x100000003ULL);
  EXPECT_EQ(full_number(7, 7), 7U);
}

TEST(VerbsWire, OffersComeBackAndRubbishDoesNot) {
  Offer offer;
  offer.host = "node7";
  offer.device = "mlx5_0";
  offer.port = 2;
  offer.ethernet = false;
  offer.gid = {0xFD, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  offer.lid = 4711;
  offer.mtu = 2048;
  offer.max_message = 1U << 31;
  offer.credits = 255;
  offer.queue_pairs = {{17, 0xFFFFFF}, {18, 3}};
  std::string why;
  const std::string text = encode(offer);
  const std::optional<Offer> back = decode(text, why);
  ASSERT_TRUE(back) << why;
  EXPECT_EQ(encode(*back), text);
  EXPECT_EQ(back->gid, offer.gid);
  EXPECT_EQ(back->queue_pairs[1].number, 18U);
  for (size_t cut = 0; cut + 1 < text.size(); ++cut) {
    const std::optional<Offer> part = decode(text.substr(0, cut), why);
    EXPECT_TRUE(!part || !why.empty() || part->queue_pairs.size() == 2) << cut;
  }
  EXPECT_FALSE(decode("", why));
  EXPECT_FALSE(decode("tcp 127.0.0.1:80", why));
  EXPECT_FALSE(decode("verbs 2 x", why));
  EXPECT_THAT(why, HasSubstr("version 2"));
  EXPECT_FALSE(decode("verbs 1 h d 1 1 zz 0 1024 4096 8 1 1 1", why));
}

TEST(VerbsWire, TheProofIsGoodForOneTokenAndOnePair) {
  // The example of the paper: key 00..0f, input 00..0e.
  std::array<uint8_t, 15> input{};
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(siphash({0x0706050403020100U, 0x0F0E0D0C0B0A0908U}, std::as_bytes(std::span(input))),
            0xA129CA6149BE45E5U);
  const std::array<uint32_t, 3> facts{1, 2, 3}, others{1, 2, 4};
  EXPECT_EQ(proof("secret", facts), proof("secret", facts));
  EXPECT_NE(proof("secret", facts), proof("secret", others));
  EXPECT_NE(proof("secret", facts), proof("Secret", facts));
}

}  // namespace
}  // namespace kinet::verbs
