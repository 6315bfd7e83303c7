#include "tests/transport_traffic.h"

#include <algorithm>
#include <cstring>

#include "src/base/rng.h"

namespace kinet {
namespace {

constexpr size_t kGuard = 64;  // bytes on both sides of a target that must stay as they are
constexpr auto kUntouched = std::byte{0xA5};

uint64_t pattern_word(uint64_t seed, uint64_t index) {
  uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15U + index * 0xD1B54A32D192ED03U;
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9U;
}

}  // namespace

void fill_pattern(std::byte* data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    const uint64_t word = pattern_word(seed, i);
    std::memcpy(data + i, &word, std::min(sizeof(word), bytes - i));
  }
}

bool is_pattern(const std::byte* data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    const uint64_t word = pattern_word(seed, i);
    if (std::memcmp(data + i, &word, std::min(sizeof(word), bytes - i)) != 0) return false;
  }
  return true;
}

bool all_equal(const std::byte* data, size_t bytes, std::byte value) {
  return std::all_of(data, data + bytes, [value](std::byte b) { return b == value; });
}

std::vector<std::byte> message_of(uint64_t seed, size_t bytes) {
  std::vector<std::byte> out(bytes);
  fill_pattern(out.data(), bytes, seed);
  return out;
}

uint64_t seed_of(Rank from, Rank to, uint64_t number) {
  return number * 10000 + static_cast<uint64_t>(from) * 100 + static_cast<uint64_t>(to);
}

std::vector<std::byte> numbered_message(Rank from, Rank to, int number) {
  const size_t bytes = Rng(1, RngPurpose::kTest, from, to, number).below(kMaxMessage + 1);
  return message_of(seed_of(from, to, number), bytes);
}

void send_numbered(TestRank& rank, Rank to, int number) {
  rank.send(to, numbered_message(rank.rank(), to, number));
}

void expect_numbered(TestRank& rank, Rank from, int count) {
  const auto& messages = rank.from(from).messages;
  ASSERT_EQ(messages.size(), count);
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(messages[i], numbered_message(from, rank.rank(), i))
        << "message " << i << " of rank " << from;
  }
}

Put put_of(const TestRegion& from, size_t from_offset, const RemoteRegion& to, size_t to_offset,
           size_t bytes, uint32_t notify) {
  Put put;
  put.from = &from.registered();
  put.from_offset = from_offset;
  put.to = to;
  put.to_offset = to_offset;
  put.bytes = bytes;
  put.notify = notify;
  put.flush = true;
  return put;
}

// One put of that size from every rank to the next: contents, notify value, size, neighbours.
void put_to_next(TestRank& rank, size_t bytes) {
  const std::string name = "target " + std::to_string(bytes);
  TestRegion& target = rank.region(name, bytes + 2 * kGuard);
  TestRegion& source = rank.region("source " + std::to_string(bytes), bytes + 1);
  std::memset(target.data(), static_cast<int>(kUntouched), target.bytes());
  const uint64_t seed = bytes * 16 + static_cast<uint64_t>(rank.rank());
  fill_pattern(source.data() + 1, bytes, seed);
  const RemoteRegion there = rank.remote(rank.next(), name);
  const size_t before = rank.from(rank.previous()).arrived.size();
  const uint64_t completed = rank.from(rank.next()).completed;
  rank.barrier("ready " + name);  // from here on the put of the one before may come

  const uint32_t notify = 0xFFFF0000U + static_cast<uint32_t>(bytes);
  rank.put(rank.next(), put_of(source, 1, there, kGuard, bytes, notify));
  rank.until("a put of " + std::to_string(bytes) + " bytes", [&] {
    return rank.from(rank.previous()).arrived.size() > before &&
           rank.from(rank.next()).completed > completed;
  });
  const auto [got_notify, got_bytes] = rank.from(rank.previous()).arrived.back();
  EXPECT_EQ(got_notify, notify);
  EXPECT_EQ(got_bytes, bytes);
  const uint64_t seed_there = bytes * 16 + static_cast<uint64_t>(rank.previous());
  EXPECT_TRUE(is_pattern(target.data() + kGuard, bytes, seed_there)) << bytes;
  EXPECT_TRUE(all_equal(target.data(), kGuard, kUntouched)) << bytes;
  EXPECT_TRUE(all_equal(target.data() + kGuard + bytes, kGuard, kUntouched)) << bytes;
}

// Traffic among the ranks begin .. end-1, after which each has 20 messages more of all others.
void chat(TestRank& rank, Rank begin, Rank end) {
  constexpr int kMessages = 20;
  std::vector<size_t> due(end, 0);
  for (Rank r = begin; r < end; ++r) due[r] = rank.from(r).messages.size() + kMessages;
  rank.barrier("chat", end - begin);
  for (int i = 0; i < kMessages; ++i) {
    for (Rank r = begin; r < end; ++r) {
      if (r != rank.rank()) rank.send(r, message_of(i, 100));
    }
  }
  for (Rank r = begin; r < end; ++r) {
    if (r == rank.rank()) continue;
    rank.until("chat", [&] { return rank.from(r).messages.size() >= due[r]; });
  }
}

}  // namespace kinet
