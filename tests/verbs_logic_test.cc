// ctest: labels=unit,core timeout=60
//
// What the verbs transport chooses, without a device: addresses, attributes, packet sizes, ports,
// knobs. Its flow of work is in verbs_flow_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/verbs/port_choice.h"
#include "comm/verbs/settings.h"
#include "src/base/check.h"

namespace kinet::verbs {
namespace {

using testing::HasSubstr;

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
