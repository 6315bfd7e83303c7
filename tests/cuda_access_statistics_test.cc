// Coalescing and bank conflicts as check mode counts them, on kernels of which they are known.
//
// ctest: labels=unit,cuda_check kernels=access_patterns checked
#include "tests/cuda/access_patterns.h"
#include "tests/cuda_faults.h"

namespace kinet {
namespace {

using emulation::AccessRow;

class AccessStatistics : public ThreadOrders {
 protected:
  void SetUp() override {
    ThreadOrders::SetUp();
    emulation::Options options = emulation::options();
    options.access_statistics = true;
    emulation::set_options(options);
    emulation::take_access_statistics();
  }
};

// The rows of one kind: "read 4", of shared memory or not, in the order of their lines.
std::vector<AccessRow> rows_of(const std::vector<AccessRow>& all, const std::string& access,
                               bool shared) {
  std::vector<AccessRow> rows;
  for (const AccessRow& row : all) {
    if (row.access == access && row.shared == shared) rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const AccessRow& a, const AccessRow& b) { return a.place < b.place; });
  return rows;
}

// {accesses of warps, lanes, paid, least, worst}
using Numbers = std::vector<int64_t>;
Numbers numbers(const AccessRow& r) { return {r.warps, r.lanes, r.paid, r.least, r.worst}; }

void expect_rows(const std::string& access, bool shared, const std::vector<Numbers>& expected) {
  const std::vector<AccessRow> all = emulation::take_access_statistics();
  std::vector<Numbers> found;
  for (const AccessRow& row : rows_of(all, access, shared)) found.push_back(numbers(row));
  EXPECT_EQ(found, expected) << text_of(all);
}

TEST_P(AccessStatistics, NeighboursShareSectors) {
  copy_with_stride(64, 1, 0);
  expect_rows("read 4", false, {{2, 64, 8, 8, 4}});
  copy_with_stride(64, 1, 0);
  expect_rows("write 4", false, {{2, 64, 8, 8, 4}});
}

TEST_P(AccessStatistics, AStrideFetchesASectorForEachLane) {
  copy_with_stride(32, 32, 0);
  expect_rows("read 4", false, {{1, 32, 32, 4, 32}});
  copy_with_stride(32, 2, 0);
  expect_rows("read 4", false, {{1, 32, 8, 4, 8}});
}

TEST_P(AccessStatistics, ABeginInTheMiddleCostsOneMore) {
  copy_with_stride(32, 1, 1);
  expect_rows("read 4", false, {{1, 32, 5, 4, 5}});
}

TEST_P(AccessStatistics, AVectorAccessIsOneAccess) {
  copy_fours(40);  // 32 lanes, then 8
  const std::vector<AccessRow> all = emulation::take_access_statistics();
  for (const char* access : {"read 16", "write 16"}) {
    const std::vector<AccessRow> rows = rows_of(all, access, false);
    ASSERT_EQ(rows.size(), 1u) << text_of(all);
    EXPECT_EQ(numbers(rows[0]), (Numbers{2, 40, 20, 20, 16}));
  }
}

TEST_P(AccessStatistics, OneValueForAllIsOneSectorAndHalfTheLanesWasteHalf) {
  read_one_write_half();
  const std::vector<AccessRow> all = emulation::take_access_statistics();
  EXPECT_EQ(numbers(rows_of(all, "read 4", false).at(0)), (Numbers{1, 32, 1, 1, 1}));
  EXPECT_EQ(numbers(rows_of(all, "write 4", false).at(0)), (Numbers{1, 16, 4, 2, 4}));
}

TEST_P(AccessStatistics, AColumnOfATileIsOneBank) {
  read_tile(false);
  // Column, then row; three times each.
  expect_rows("read 4", true, {{3, 96, 96, 3, 32}, {3, 96, 3, 3, 1}});
  read_tile(true);
  expect_rows("read 4", true, {{3, 96, 3, 3, 1}, {3, 96, 3, 3, 1}});
}

TEST_P(AccessStatistics, FoursOfSharedMemoryTakeFourTurns) {
  read_shared_fours();
  expect_rows("read 16", true, {{1, 32, 4, 4, 4}});
}

TEST_P(AccessStatistics, NamesKernelAndLine) {
  copy_with_stride(32, 32, 0);
  const std::vector<AccessRow> all = emulation::take_access_statistics();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].kernel, "stride_kernel");
  EXPECT_EQ(all[0].place.rfind("access_patterns.cu:", 0), 0u) << all[0].place;
  EXPECT_NE(text_of(all).find("global   32.00  4.00    32  32.0"), std::string::npos)
      << text_of(all);
  EXPECT_TRUE(emulation::take_access_statistics().empty());
}

TEST_P(AccessStatistics, OffByDefault) {
  emulation::set_options({});
  copy_with_stride(32, 1, 0);
  EXPECT_TRUE(emulation::take_access_statistics().empty());
}

KINET_IN_EVERY_ORDER(AccessStatistics);

}  // namespace
}  // namespace kinet
