// How servers share the parameters, and the rule for batch-norm statistics.
// ctest: labels=unit,core,smoke timeout=60
#include "src/sync/server_rank.h"

#include <gtest/gtest.h>

namespace kinet {
namespace {

TEST(MergeBuffers, AWholeRoundIsTheMeanOfItsMembers) {
  const std::vector<float> a{1, 2}, b{3, 6};
  std::vector<float> buffers{100, 100};
  merge_buffers({{0.5, a.data()}, {0.5, b.data()}}, buffers);
  EXPECT_EQ(buffers, (std::vector<float>{2, 4}));
  merge_buffers({{0.75, a.data()}, {0.25, b.data()}}, buffers);
  EXPECT_FLOAT_EQ(buffers[0], 1.5F);
  merge_buffers({{1.5, a.data()}, {1.5, b.data()}}, buffers);  // more than a whole one
  EXPECT_EQ(buffers, (std::vector<float>{2, 4}));
}

TEST(MergeBuffers, APartMovesThemByThatPart) {
  const std::vector<float> a{1, 2}, b{3, 6};
  std::vector<float> buffers{10, 20};
  merge_buffers({{0.25, a.data()}}, buffers);
  EXPECT_FLOAT_EQ(buffers[0], 0.75F * 10 + 0.25F * 1);
  merge_buffers({{0.125, a.data()}, {0.375, b.data()}}, buffers);
  EXPECT_FLOAT_EQ(buffers[0], 0.5F * 7.75F + 0.5F * 2.5F);
  const std::vector<float> before = buffers;
  merge_buffers({}, buffers);
  EXPECT_EQ(buffers, before);
}

TEST(SyncLayout, SlicesAreWholeLinesAndAll) {
  for (const size_t floats : {100UL, 16UL, 431080UL}) {
    for (int servers = 1; servers <= 7; ++servers) {
      const SyncLayout layout{servers, 2, floats, 3};
      if (static_cast<size_t>(servers) > SyncLayout::padded(floats) / 16) {
        EXPECT_THROW(layout.check(), Error);
        continue;
      }
      layout.check();
      size_t bytes = 0;
      for (int s = 0; s < servers; ++s) {
        EXPECT_EQ(layout.begin(s) % 16, 0u);
        EXPECT_LT(layout.begin(s), layout.end(s));
        bytes += layout.slice_bytes(s);
      }
      EXPECT_EQ(layout.begin(0), 0u);
      EXPECT_EQ(bytes, (floats + 3) * sizeof(float));
    }
  }
}

}  // namespace
}  // namespace kinet
