// The ring of transport shm: order and bytes at every size and place, room, flags, rubbish.
// ctest: labels=unit,core,threads timeout=60
#include "comm/transports/shm_ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "src/base/check.h"
#include "tests/shm_ranks.h"

namespace kinet {
namespace {

struct Ring {
  explicit Ring(size_t bytes) : inbox(bytes), outbox(dup(inbox.fd()), bytes) {}
  ShmInbox inbox;
  ShmOutbox outbox;
  ShmEntry entry;
};

std::string text_of(size_t bytes, size_t number) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(number * 31 + i * 7 + 1);
  return out;
}

std::string taken(const ShmEntry& entry) {
  return {reinterpret_cast<const char*>(entry.data), entry.bytes};
}

TEST(ShmRing, EverySizeAtEveryPlace) {
  Ring ring(kShmSmallestRing);
  for (size_t round = 0; round < 3; ++round) {
    for (size_t bytes = 0; bytes <= kMaxMessage; ++bytes) {
      const std::string sent = text_of(bytes, round + bytes);
      ASSERT_EQ(ring.outbox.room_for(bytes), ShmOutbox::Room::kYes);
      ring.outbox.push_message(bytes_of(sent));
      ASSERT_EQ(ring.inbox.take(ring.entry), ShmInbox::Take::kMessage);
      ASSERT_EQ(taken(ring.entry), sent);
      ASSERT_EQ(ring.inbox.take(ring.entry), ShmInbox::Take::kNothing);
      ring.inbox.release();
    }
  }
}

TEST(ShmRing, FullUntilRoomIsGivenBack) {
  Ring ring(kShmSmallestRing);
  size_t pushed = 0;
  for (; ring.outbox.room_for(8) == ShmOutbox::Room::kYes; ++pushed) {
    ring.outbox.push_put(static_cast<uint32_t>(pushed), pushed << 40);
  }
  EXPECT_EQ(pushed, kShmSmallestRing / kShmCell);
  for (size_t i = 0; i < pushed; ++i) {
    ASSERT_EQ(ring.inbox.take(ring.entry), ShmInbox::Take::kPut);
    EXPECT_EQ(ring.entry.notify, i);
    EXPECT_EQ(ring.entry.bytes, i << 40);
    ASSERT_EQ(ring.outbox.room_for(8), ShmOutbox::Room::kNo);
  }
  EXPECT_FALSE(ring.inbox.release()) << "nobody waits for room";
  EXPECT_EQ(ring.outbox.room_for(kMaxMessage), ShmOutbox::Room::kYes);
}

TEST(ShmRing, OneBellForOneSleep) {
  Ring ring(kShmSmallestRing);
  EXPECT_FALSE(ring.outbox.push_put(1, 0)) << "the consumer is awake";
  ring.inbox.set_sleeping(true);
  EXPECT_TRUE(ring.outbox.push_put(2, 0));
  EXPECT_FALSE(ring.outbox.push_put(3, 0)) << "it was rung before";
  ring.outbox.set_wants_room(true);
  EXPECT_FALSE(ring.inbox.release()) << "no room was made";
  ring.inbox.take(ring.entry);
  EXPECT_TRUE(ring.inbox.release());
  ring.inbox.take(ring.entry);
  EXPECT_FALSE(ring.inbox.release()) << "it was rung before";
}

// A file that looks like a ring to the outbox; whatever stands in its first cell is then taken.
TEST(ShmRing, RubbishIsNamedAndNeverFollowed) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    Ring ring(kShmSmallestRing);
    SharedMemory raw = SharedMemory::from_fd(dup(ring.inbox.fd()), kShmSmallestRing);
    uint64_t word = random();
    if (i % 2 == 0) word = (word & ~uint64_t{0xFFFF}) | 0xA5 | (1 + random() % 2) << 8;
    std::memcpy(raw.data() + sizeof(ShmRingHeader), &word, sizeof(word));
    const ShmInbox::Take got = ring.inbox.take(ring.entry);
    const uint64_t kind = word >> 8 & 0xFF, bytes = word >> 16 & 0xFFFF;
    const bool good =
        (word & 0xFF) == 0xA5 &&
        ((kind == 1 && bytes <= kMaxMessage && word >> 32 == 0) || (kind == 2 && bytes == 8));
    ASSERT_EQ(got == ShmInbox::Take::kRubbish, !good) << std::hex << word;
  }
}

TEST(ShmRing, FalseHeadIsRubbish) {
  for (const uint64_t head : {uint64_t{1}, uint64_t{1} << 40, ~uint64_t{63}, uint64_t{128}}) {
    Ring ring(kShmSmallestRing);
    while (ring.outbox.room_for(8) == ShmOutbox::Room::kYes) ring.outbox.push_put(0, 0);
    SharedMemory raw = SharedMemory::from_fd(dup(ring.inbox.fd()), kShmSmallestRing);
    std::memcpy(raw.data(), &head, sizeof(head));
    EXPECT_EQ(ring.outbox.room_for(8),
              head == 128 ? ShmOutbox::Room::kYes : ShmOutbox::Room::kRubbish)
        << head;
  }
}

TEST(ShmRing, ForeignMemoryIsChecked) {
  const ShmInbox inbox(kShmSmallestRing);
  EXPECT_THROW(ShmOutbox(dup(inbox.fd()), size_t{1} << 20), Error) << "shorter than it says";
  const int loose = memfd_create("loose", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(loose, 1 << 20), 0);
  EXPECT_THROW(ShmOutbox(loose, kShmSmallestRing), Error) << "it could be cut off later";
  EXPECT_NE(ftruncate(inbox.fd(), 0), 0) << "nor can our own";
}

TEST(ShmRing, TwoThreadsInStep) {
  constexpr size_t kCount = 100000;
  Ring ring(kShmSmallestRing);
  std::thread producer([&] {
    for (size_t i = 0; i < kCount; ++i) {
      const std::string text = text_of(i * 13 % 257, i);
      while (ring.outbox.room_for(text.size()) == ShmOutbox::Room::kNo) std::this_thread::yield();
      ring.outbox.push_message(bytes_of(text));
    }
  });
  size_t good = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const bool here = wait_until([&] {
      const bool got = ring.inbox.take(ring.entry) == ShmInbox::Take::kMessage;
      if (!got) std::this_thread::yield();
      return got;
    });
    good += here && taken(ring.entry) == text_of(i * 13 % 257, i) ? 1 : 0;
    ring.inbox.release();
  }
  producer.join();
  EXPECT_EQ(good, kCount);
}

void spin_until(const std::function<bool()>& done) {
  for (int i = 0; !done(); ++i) {
    if (i > 2000) std::this_thread::yield();
  }
}

// Two threads that do one thing each at the same moment, more or less, again and again.
void at_once(const std::function<void()>& one, const std::function<void()>& other,
             const std::function<bool()>& check) {
  constexpr int kRounds = 60000;
  constexpr double kSeconds = 3;  // on a machine that is busy; the rounds that fit are enough
  std::atomic<int> round{0}, done{0};
  std::thread helper([&] {
    for (int i = 1; i <= kRounds; ++i) {
      spin_until([&] { return round.load() >= i; });
      if (round.load() > kRounds) return;
      other();
      done.store(i);
    }
  });
  const auto start = std::chrono::steady_clock::now();
  bool good = true;
  for (int i = 1; i <= kRounds && good; ++i) {
    round.store(i);
    for (std::atomic<int> pause = i % 128; pause.load() > 0; pause.store(pause.load() - 1))
      continue;
    one();
    spin_until([&] { return done.load() >= i; });
    good = check();
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(kSeconds)) break;
  }
  round.store(kRounds + 1);
  helper.join();
  EXPECT_TRUE(good);
}

TEST(ShmRing, SleepingAndSendingAtOnce) {
  Ring ring(kShmSmallestRing);
  bool bell = false, seen = false;
  at_once(
      [&] {
        ring.outbox.room_for(8);
        bell = ring.outbox.push_put(1, 1);
      },
      [&] {
        ring.inbox.set_sleeping(true);
        seen = ring.inbox.take(ring.entry) == ShmInbox::Take::kPut;
      },
      [&] {
        ring.inbox.set_sleeping(false);
        if (!seen) ring.inbox.take(ring.entry);
        ring.inbox.release();
        return bell || seen;  // else the consumer sleeps and nobody wakes it
      });
}

TEST(ShmRing, WaitingForRoomAndGivingItAtOnce) {
  Ring ring(kShmSmallestRing);
  bool bell = false, seen = false;
  while (ring.outbox.room_for(8) == ShmOutbox::Room::kYes) ring.outbox.push_put(1, 1);
  at_once(
      [&] {
        ring.inbox.take(ring.entry);
        bell = ring.inbox.release();
      },
      [&] {
        ring.outbox.set_wants_room(true);
        seen = ring.outbox.room_for(8) == ShmOutbox::Room::kYes;
      },
      [&] {
        ring.outbox.set_wants_room(false);
        while (ring.outbox.room_for(8) == ShmOutbox::Room::kYes) ring.outbox.push_put(1, 1);
        return bell || seen;
      });
}

}  // namespace
}  // namespace kinet
