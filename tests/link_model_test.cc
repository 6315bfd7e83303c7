// ctest: labels=unit,core,smoke timeout=60
//
// The network of the sim transport against its formula: idle links, streams, incast, both
// directions at once, shared links of a node, presets and fields; and the event queue below it.
#include "comm/link_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/event_queue.h"

namespace kinet {
namespace {

constexpr double kExact = 1e-15;  // seconds; sums of a few doubles of microseconds

LinkModel::Parameters some_link() {
  LinkModel::Parameters p;
  p.network = {2e-6, 1e9, 5e-7};
  p.node = {1e-7, 1e10, 0};
  return p;
}

double send(LinkModel& model, Rank from, Rank to, uint64_t bytes, double now) {
  const double first = model.leave(from, to, bytes, now) + model.wire(from, to).latency;
  return model.arrive(from, to, bytes, first);
}

LinkModel::Parameters parse(const std::string& text) {
  static std::vector<std::unique_ptr<ParamNode>> kept;
  Diagnostics diagnostics;
  kept.push_back(std::make_unique<ParamNode>(parse_prototxt(text, "link.prototxt", diagnostics)));
  validate(*kept.back(), LinkModel::fields(), "link", diagnostics);
  diagnostics.throw_if_any();
  return LinkModel::parameters(Params(kept.back().get(), &LinkModel::fields()));
}

TEST(LinkModel, AnIdleLinkTakesLatencyOverheadAndBytes) {
  for (const uint64_t bytes : {0U, 1U, 4096U, 10485760U}) {
    LinkModel model(some_link(), 2);
    const double expected = 2e-6 + 5e-7 + static_cast<double>(bytes) / 1e9;
    EXPECT_NEAR(send(model, 0, 1, bytes, 1.0) - 1.0, expected, 1e-13);
    EXPECT_NEAR(model.transfer_time(0, 1, bytes), expected, kExact);
  }
}

TEST(LinkModel, AStreamPaysTheLatencyOnce) {
  LinkModel model(some_link(), 2);
  double last = 0;
  for (int i = 0; i < 10; ++i) last = send(model, 0, 1, 1000, 0);
  EXPECT_NEAR(last, 2e-6 + 10 * (5e-7 + 1e-6), kExact);
}

TEST(LinkModel, IncastOfNSendersTakesNTimesAsLong) {
  for (const int n : {1, 2, 7, 64}) {
    LinkModel model(some_link(), n + 1);
    double last = 0;
    for (Rank r = 1; r <= n; ++r) last = std::max(last, send(model, r, 0, 100000, 0));
    EXPECT_NEAR(last, 2e-6 + n * (5e-7 + 1e-4), n * kExact);
  }
}

TEST(LinkModel, BothDirectionsRunAtOnce) {
  LinkModel model(some_link(), 2);
  const double there = send(model, 0, 1, 5000, 0);
  EXPECT_NEAR(send(model, 1, 0, 5000, 0), there, kExact);
}

TEST(LinkModel, RanksOfANodeShareItsLinkButNotTheirOwnWires) {
  LinkModel::Parameters p = some_link();
  p.ranks_per_node = 2;
  LinkModel model(p, 4);
  EXPECT_NEAR(send(model, 0, 1, 1000, 0), 1e-7 + 1e-7, kExact);        // inside
  EXPECT_NEAR(send(model, 0, 2, 1000, 0), 2e-6 + 1.5e-6, kExact);      // to another node
  EXPECT_NEAR(send(model, 1, 3, 1000, 0), 2e-6 + 2 * 1.5e-6, kExact);  // the same link again
  EXPECT_NEAR(send(model, 3, 2, 1000, 0), 2e-7, kExact);               // wires are apart
}

TEST(LinkModel, PresetsGiveWhatTheFileLeavesOut) {
  const auto fdr = parse("");
  EXPECT_DOUBLE_EQ(fdr.network.latency, 0.7e-6);
  EXPECT_DOUBLE_EQ(fdr.network.bandwidth, 5e9);
  const auto mixed = parse("preset: ethernet_10g bandwidth: 8 message_overhead: 3");
  EXPECT_DOUBLE_EQ(mixed.network.latency, 7.2e-6);
  EXPECT_DOUBLE_EQ(mixed.network.bandwidth, 1e9);
  EXPECT_DOUBLE_EQ(mixed.network.overhead, 3e-6);
  const auto ideal = parse("preset: ideal");
  EXPECT_EQ(LinkModel(ideal, 2).transfer_time(0, 1, 1U << 30), 0);
  EXPECT_NE(mixed.describe().find("8 Gbit/s"), std::string::npos) << mixed.describe();
}

TEST(LinkModel, ValuesWithoutSenseAreNamedWithTheirPlace) {
  for (const char* text : {"latency: -1", "ranks_per_node: 0", "node_bandwidth: -0.5"}) {
    try {
      parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("link.prototxt:1"), std::string::npos)
          << error.what();
    }
  }
}

TEST(EventQueue, ByTimeThenByTheOrderOfAdding) {
  EventQueue<int> queue;
  for (const int i : {5, 1, 3}) queue.push(i, i * 10);
  for (int i = 0; i < 100; ++i) queue.push(3, i);
  std::vector<int> out;
  while (!queue.empty()) out.push_back(queue.pop());
  ASSERT_EQ(out.size(), 103U);
  EXPECT_EQ(out.front(), 10);
  EXPECT_EQ(out[1], 30);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(out[i + 2], i);
  EXPECT_EQ(out.back(), 50);
}

}  // namespace
}  // namespace kinet
