// ctest: labels=unit,core timeout=60
//
// What the verbs transport decides, without a device: addresses, attributes, packet sizes, credits,
// windows, failures, offers, knobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "comm/verbs/credits.h"
#include "comm/verbs/failure.h"
#include "comm/verbs/memory_key.h"
#include "comm/verbs/offer.h"
#include "comm/verbs/port_choice.h"
#include "comm/verbs/proof.h"
#include "comm/verbs/send_window.h"
#include "comm/verbs/settings.h"
#include "comm/verbs/wire.h"
#include "src/base/check.h"

namespace kinet::verbs {
namespace {

using testing::HasSubstr;
using testing::Not;

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// ---- addresses ----------------------------------------------------------------------------------

Gid gid_of(std::initializer_list<uint8_t> front, std::initializer_list<uint8_t> back) {
  Gid gid{};
  std::copy(front.begin(), front.end(), gid.begin());
  std::copy(back.begin(), back.end(), gid.end() - static_cast<std::ptrdiff_t>(back.size()));
  return gid;
}
const Gid kLinkLocal = gid_of({0xFE, 0x80}, {1});
const Gid kUniqueLocal = gid_of({0xFD, 0x12}, {1});
const Gid kIpv4 = gid_of({}, {0xFF, 0xFF, 10, 77, 0, 1});

TEST(VerbsGid, RoceV2AndRoutableFirst) {
  const std::vector<GidEntry> table{{0, kLinkLocal, GidType::kRoceV1},
                                    {1, kLinkLocal, GidType::kRoceV2},
                                    {2, kIpv4, GidType::kRoceV1},
                                    {3, kIpv4, GidType::kRoceV2}};
  EXPECT_EQ(choose_gid(table, -1, "rxe0").index, 3);
}

TEST(VerbsGid, AUniqueLocalAddressIsTakenWhenItIsTheOnlyRoutableOne) {
  const std::vector<GidEntry> table{{0, kLinkLocal, GidType::kRoceV2},
                                    {5, kUniqueLocal, GidType::kRoceV2},
                                    {7, kIpv4, GidType::kRoceV1}};
  EXPECT_EQ(choose_gid(table, -1, "rxe0").index, 5);
}

TEST(VerbsGid, EmptyEntriesBetweenAreSkipped) {
  const std::vector<GidEntry> table{{0, Gid{}, GidType::kRoceV2},
                                    {9, kLinkLocal, GidType::kRoceV2},
                                    {10, Gid{}, GidType::kRoceV2},
                                    {12, kIpv4, GidType::kRoceV2}};
  EXPECT_EQ(choose_gid(table, -1, "rxe0").index, 12);
}

TEST(VerbsGid, AWantedIndexWinsAndAnAbsentOneIsRefusedWithTheTable) {
  const std::vector<GidEntry> table{{0, kLinkLocal, GidType::kRoceV2},
                                    {1, kIpv4, GidType::kRoceV2}};
  EXPECT_EQ(choose_gid(table, 0, "rxe0").index, 0);
  const std::string error = error_of([&] { choose_gid(table, 4, "rxe0 port 1"); });
  EXPECT_THAT(error, HasSubstr("rxe0 port 1"));
  EXPECT_THAT(error, HasSubstr("index 4"));
  EXPECT_THAT(error, HasSubstr("GID 1 (10.77.0.1, RoCE v2)"));
  EXPECT_THAT(error_of([] { choose_gid({}, -1, "rxe0"); }), HasSubstr("IP address"));
}

// ---- attributes ---------------------------------------------------------------------------------

Port port_of(bool ethernet, int lid = 0, int mtu = 4096) {
  Port port;
  port.device = "rxe0";
  port.active = true;
  port.state = "ACTIVE";
  port.ethernet = ethernet;
  port.lid = lid;
  port.mtu = mtu;
  return port;
}

TEST(VerbsAttributes, TheRouteHeaderFollowsTheLinkLayer) {
  const Settings settings;
  const GidEntry own{3, kIpv4, GidType::kRoceV2};
  const Path with_lid{kIpv4, 17, 2048}, without_lid{kIpv4, 0, 2048};
  const auto rtr = [&](const Port& port, const Path& path) {
    return to_rtr(settings, port, own, path, {99, 1234}).values.ah_attr;
  };
  EXPECT_EQ(rtr(port_of(true), without_lid).is_global, 1);
  EXPECT_EQ(rtr(port_of(true), without_lid).grh.sgid_index, 3);
  EXPECT_EQ(rtr(port_of(true), without_lid).grh.hop_limit, 64);
  EXPECT_EQ(rtr(port_of(false, 5), with_lid).is_global, 0);
  EXPECT_EQ(rtr(port_of(false, 5), with_lid).dlid, 17);
  EXPECT_EQ(rtr(port_of(false, 5), without_lid).is_global, 1);
}

TEST(VerbsAttributes, EveryKnobArrives) {
  Settings s;
  s.timeout = 9;
  s.retry_count = 3;
  s.rnr_retry = 2;
  s.min_rnr_timer = 20;
  s.service_level = 4;
  s.traffic_class = 104;
  s.hop_limit = 7;
  s.max_rd_atomic = 5;
  s.pkey_index = 1;
  Port port = port_of(true);
  port.number = 2;
  EXPECT_EQ(to_init(s, port).values.pkey_index, 1);
  EXPECT_EQ(to_init(s, port).values.port_num, 2);
  const ibv_qp_attr rtr = to_rtr(s, port, {}, {kIpv4, 0, 1024}, {77, 0xABCDEF}).values;
  EXPECT_EQ(rtr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(rtr.dest_qp_num, 77U);
  EXPECT_EQ(rtr.rq_psn, 0xABCDEFU);
  EXPECT_EQ(rtr.min_rnr_timer, 20);
  EXPECT_EQ(rtr.max_dest_rd_atomic, 5);
  EXPECT_EQ(rtr.ah_attr.sl, 4);
  EXPECT_EQ(rtr.ah_attr.grh.traffic_class, 104);
  EXPECT_EQ(rtr.ah_attr.grh.hop_limit, 7);
  const ibv_qp_attr rts = to_rts(s, {1, 55}).values;
  EXPECT_EQ(rts.timeout, 9);
  EXPECT_EQ(rts.retry_cnt, 3);
  EXPECT_EQ(rts.rnr_retry, 2);
  EXPECT_EQ(rts.sq_psn, 55U);
  EXPECT_EQ(rts.max_rd_atomic, 5);
}

TEST(VerbsAttributes, AFailedStepTellsAllAndWhatIsSuspicious) {
  const Attributes a = to_rtr({}, port_of(true, 0, 1024), {3, kIpv4, GidType::kRoceV2},
                              {kLinkLocal, 0, 4096}, {0, 12});
  const std::string text = to_text(a);
  for (const char* part : {"to RTR", "path_mtu 4096", "dest_qp_num 0", "rq_psn 12", "port_num 1",
                           "dlid 0", "is_global 1", "dgid fe80::1", "sgid_index 3"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const std::vector<std::string> hints = suspicious(a, port_of(true, 0, 1024));
  EXPECT_THAT(hints, testing::Contains(HasSubstr("path_mtu is above")));
  EXPECT_THAT(hints, testing::Contains(HasSubstr("dest_qp_num is 0")));
  EXPECT_THAT(hints, testing::Contains(HasSubstr("link-local")));
  const Attributes fine =
      to_rtr({}, port_of(true), {3, kIpv4, GidType::kRoceV2}, {kIpv4, 0, 4096}, {8, 12});
  EXPECT_TRUE(suspicious(fine, port_of(true)).empty());
}

TEST(VerbsAttributes, BothSidesUseTheSmallerMtu) {
  for (const auto& [a, b, out] :
       {std::tuple{4096, 1024, 1024}, {1024, 4096, 1024}, {256, 256, 256}, {2048, 4096, 2048}}) {
    EXPECT_EQ(path_mtu(a, b, 0), out);
    EXPECT_EQ(mtu_bytes(mtu_code(out)), out);
  }
  EXPECT_EQ(path_mtu(4096, 4096, 512), 512);
  EXPECT_THAT(error_of([] { path_mtu(1024, 4096, 4096); }), HasSubstr("the own port (1024)"));
  EXPECT_THAT(error_of([] { path_mtu(4096, 1024, 2048); }), HasSubstr("the peer's port (1024)"));
}

TEST(VerbsAttributes, InlineIsProbedDownwards) {
  for (const auto& [limit, wanted, found] :
       {std::tuple{0, 128, 0}, {64, 128, 64}, {101, 128, 64}, {988, 512, 512}, {101, 64, 64}}) {
    int calls = 0;
    EXPECT_EQ(probe_inline(wanted, [&, most = limit](int size) { return ++calls, size <= most; }),
              found);
    EXPECT_LE(calls, 8);
  }
  EXPECT_EQ(probe_inline(128, [](int) { return false; }), -1);
}

// ---- ports --------------------------------------------------------------------------------------

DeviceInfo device_of(const std::string& name, std::initializer_list<bool> active,
                     double gigabits = 10) {
  DeviceInfo device;
  device.name = name;
  for (const bool is_active : active) {
    Port port = port_of(true);
    port.device = name;
    port.number = static_cast<int>(device.ports.size()) + 1;
    port.active = is_active;
    port.state = is_active ? "ACTIVE" : "DOWN";
    port.gigabits = gigabits;
    device.ports.push_back(port);
  }
  return device;
}

TEST(VerbsPort, TheFirstActivePortIsTaken) {
  const Port port = choose_port({device_of("a", {false}), device_of("b", {false, true})}, {}, 0);
  EXPECT_EQ(port.device, "b");
  EXPECT_EQ(port.number, 2);
}

TEST(VerbsPort, RanksTakeTheFastestInTurnOrWhatWasAskedFor) {
  const std::vector<DeviceInfo> devices{device_of("slow", {true}, 10), device_of("x", {true}, 100),
                                        device_of("y", {true}, 100)};
  EXPECT_EQ(choose_port(devices, {}, 0).device, "x");
  EXPECT_EQ(choose_port(devices, {}, 1).device, "y");
  EXPECT_EQ(choose_port(devices, {}, 2).device, "x");
  Settings settings;
  settings.devices = {"y", "slow"};
  EXPECT_EQ(choose_port(devices, settings, 0).device, "y");
  EXPECT_EQ(choose_port(devices, settings, 3).device, "slow");
}

TEST(VerbsPort, WithoutAnyTheReasonOfEachIsTold) {
  EXPECT_THAT(error_of([] { choose_port({}, {}, 0); }), HasSubstr("no RDMA device"));
  DeviceInfo closed;
  closed.name = "locked";
  closed.trouble = "cannot be opened: Permission denied";
  const std::string error = error_of([&] {
    choose_port({closed, device_of("a", {false})}, {}, 0);
  });
  EXPECT_THAT(error, HasSubstr("locked: cannot be opened: Permission denied"));
  EXPECT_THAT(error, HasSubstr("a port 1: DOWN"));
  Settings settings;
  settings.devices = {"b"};
  EXPECT_THAT(error_of([&] { choose_port({device_of("a", {true})}, settings, 0); }),
              HasSubstr("device b cannot be used"));
}

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
  offer.gid = kUniqueLocal;
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
  EXPECT_EQ(back->gid, kUniqueLocal);
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
  EXPECT_EQ(siphash({0x0706050403020100ULL, 0x0F0E0D0C0B0A0908ULL}, input), 0xA129CA6149BE45E5ULL);
  const std::array<uint32_t, 3> facts{1, 2, 3}, others{1, 2, 4};
  EXPECT_EQ(proof("secret", facts), proof("secret", facts));
  EXPECT_NE(proof("secret", facts), proof("secret", others));
  EXPECT_NE(proof("secret", facts), proof("Secret", facts));
}

// ---- knobs --------------------------------------------------------------------------------------

Settings settings_from(const std::string& text) {
  Diagnostics diagnostics;
  const ParamNode node = parse_prototxt(text, "solver.prototxt", diagnostics);
  validate(node, fields(), "verbs", diagnostics);
  diagnostics.throw_if_any();
  return read_settings(Params(&node, &fields()));
}

TEST(VerbsSettings, DefaultsAreThoseOfTheDeclaration) {
  const Settings from_fields = read_settings(Params(nullptr, nullptr));
  EXPECT_EQ(describe(from_fields), describe(Settings{}));
  EXPECT_EQ(from_fields.inline_bytes, Settings{}.inline_bytes);
  EXPECT_LE(from_fields.retry_count, 6);
  EXPECT_LE(from_fields.rnr_retry, 6);
  EXPECT_NEAR(give_up_seconds(from_fields), 7 * 4.096e-6 * 65536, 1e-9);
}

TEST(VerbsSettings, ValuesOutOfRangeAreRefusedWithTheirPlace) {
  const Settings s = settings_from("devices: 'rxe0, rxe1' mtu: 1024 signal_every: 500");
  EXPECT_EQ(s.devices, (std::vector<std::string>{"rxe0", "rxe1"}));
  EXPECT_EQ(s.mtu, 1024);
  EXPECT_EQ(s.signal_every, s.send_depth / 2);
  for (const char* text : {"retry_count: 7", "rnr_retry: 7", "timeout: 0", "mtu: 1500",
                           "queue_pairs: 0", "send_depth: 1", "service_level: 16"}) {
    EXPECT_THAT(error_of([&] { settings_from(text); }), HasSubstr("solver.prototxt:1:")) << text;
  }
}

}  // namespace
}  // namespace kinet::verbs
