// Traffic for tests of transports: patterns, numbered messages, puts that are looked at.
//
// TransportTest is parameterised by {transports that work here} x {2, 3, 4, 8 ranks}; a test file
// says KINET_TRANSPORT_TESTS() once and then has TEST_P(TransportTest, ...).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/transport_ranks.h"

namespace kinet {

inline constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

// `bytes` bytes that depend on (seed, index) only.
void fill_pattern(std::byte* data, size_t bytes, uint64_t seed);
bool is_pattern(const std::byte* data, size_t bytes, uint64_t seed);
bool all_equal(const std::byte* data, size_t bytes, std::byte value);
uint64_t seed_of(Rank from, Rank to, uint64_t number);

std::vector<std::byte> message_of(uint64_t seed, size_t bytes);

// Message `number` of a pair of ranks: its size and contents follow from the three.
std::vector<std::byte> numbered_message(Rank from, Rank to, int number);
void send_numbered(TestRank& rank, Rank to, int number);
void expect_numbered(TestRank& rank, Rank from, int count);  // 0 .. count-1, in order

// A put with completion asked for.
Put put_of(const TestRegion& from, size_t from_offset, const RemoteRegion& to, size_t to_offset,
           size_t bytes, uint32_t notify);

// One put of that size from every rank to the next: contents, notify value, size, neighbours.
void put_to_next(TestRank& rank, size_t bytes);

// Traffic among the ranks begin .. end-1, after which each has 20 messages more of all others.
void chat(TestRank& rank, Rank begin, Rank end);

class TransportTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  RankRun run() const {
    RankRun out;
    out.transport = std::get<0>(GetParam());
    out.size = std::get<1>(GetParam());
    return out;
  }
};

#define KINET_TRANSPORT_TESTS()                                                           \
  INSTANTIATE_TEST_SUITE_P(, TransportTest,                                               \
                           ::testing::Combine(::testing::ValuesIn(runnable_transports()), \
                                              ::testing::Values(2, 3, 4, 8)),             \
                           [](const auto& info) {                                         \
                             return std::get<0>(info.param) + "_" +                       \
                                    std::to_string(std::get<1>(info.param)) + "_ranks";   \
                           })

}  // namespace kinet
