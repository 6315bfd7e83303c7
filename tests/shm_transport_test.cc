// Transport shm within one process: links, puts, regions, sleeping, false peers, leaks.
// Processes that die or stop: shm_process_test.cc.
// long because: its cases share one fixture of links and false peers.
// ctest: labels=unit,core,threads timeout=120
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "comm/transports/shm_ring.h"
#include "comm/transports/shm_socket.h"
#include "src/base/check.h"
#include "src/base/shared_memory.h"
#include "src/prototxt/node.h"
#include "tests/shm_ranks.h"

namespace kinet {
namespace {

MemoryBlock block_of(const SharedMemory& memory) {
  return {memory.data(), memory.bytes(), memory.fd()};
}

bool readable(int fd, double seconds) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, static_cast<int>(seconds * 1000)) == 1;
}

size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:") != std::string::npos ? 1 : 0;
  }
  return count;
}

// comm_param { shm { ... } } as a file would give it.
struct Fields {
  explicit Fields(const std::string& text)
      : node(parse_prototxt(text, "solver.prototxt", diagnostics)) {}
  Params params() const { return {&node, TransportRegistry::instance().find("shm")->fields}; }
  Diagnostics diagnostics;
  ParamNode node;
};

TEST(ShmTransport, MessagesAndPutsBothWays) {
  ShmPair pair;
  ASSERT_TRUE(pair.up);
  EXPECT_EQ(pair.at_first.connected, std::vector<Rank>{1});
  EXPECT_EQ(pair.at_second.connected, std::vector<Rank>{0});
  const SharedMemory a(1 << 20, "test a"), b(1 << 20, "test b");
  const auto region_a = pair.first->register_memory(block_of(a));
  const auto region_b = pair.second->register_memory(block_of(b));
  std::memset(a.data(), 7, a.bytes());
  Put put{region_a.get(), 3, region_b->remote(), 5, 1 << 19, 42};
  // Nobody has polled since: the file of the region is fetched when it is first needed.
  ASSERT_EQ(pair.first->put(1, put), Post::kAccepted);
  ASSERT_EQ(pair.second->send(0, bytes_of("back")), Post::kAccepted);
  ASSERT_TRUE(pair.until([&] { return !pair.at_second.puts.empty(); }));
  EXPECT_EQ(pair.at_second.puts[0], std::make_pair(42U, uint64_t{1} << 19));
  EXPECT_EQ(pair.at_first.messages, std::vector<std::string>{"back"});
  EXPECT_EQ(pair.at_first.completed, 1U);
  EXPECT_EQ(b.data()[4], std::byte{0});
  EXPECT_EQ(b.data()[5], std::byte{7});
  EXPECT_EQ(b.data()[5 + (1 << 19) - 1], std::byte{7});
  EXPECT_EQ(b.data()[5 + (1 << 19)], std::byte{0});
  const std::byte* seen = pair.second->peer_memory(0, region_a->remote());
  ASSERT_NE(seen, nullptr);
  EXPECT_NE(seen, a.data()) << "a mapping of its own, as in another process";
  EXPECT_EQ(std::memcmp(seen, a.data(), a.bytes()), 0);
}

// What was shared stays readable and writable whatever becomes of its owner.
TEST(ShmTransport, SharedMemoryOutlivesItsOwner) {
  ShmPair pair;
  ASSERT_TRUE(pair.up);
  ASSERT_TRUE(pair.second->capabilities().shares_peer_memory);
  auto memory = std::make_unique<SharedMemory>(1 << 16, "test lent");
  auto region = pair.first->register_memory(block_of(*memory));
  const std::shared_ptr<std::byte> seen = pair.second->share_peer_memory(0, region->remote());
  ASSERT_NE(seen, nullptr);
  seen.get()[9] = std::byte{5};
  EXPECT_EQ(memory->data()[9], std::byte{5});
  RemoteRegion later = region->remote();
  ++later.bytes;
  EXPECT_EQ(pair.second->share_peer_memory(0, later), nullptr);
  region.reset();
  memory.reset();
  pair.first.reset();
  ASSERT_TRUE(wait_until([&] {
    pair.second->poll(pair.at_second);
    return !pair.at_second.lost.empty();
  }));
  pair.second.reset();
  EXPECT_EQ(seen.get()[9], std::byte{5});
  seen.get()[9] = std::byte{6};
}

TEST(ShmTransport, BusyUntilUpAndWhenFull) {
  const auto lonely = make_shm(shm_config(0, 2));
  EXPECT_EQ(lonely->send(1, bytes_of("x")), Post::kBusy);
  ShmPair pair;
  uint64_t sent = 0;
  while (pair.first->send(1, bytes_of(std::to_string(sent))) == Post::kAccepted) ++sent;
  EXPECT_GE(sent, pair.first->capabilities().outstanding_puts);
  EXPECT_EQ(pair.first->counters().busy, 1U);
  ASSERT_TRUE(pair.until([&] { return pair.at_second.messages.size() == sent; }));
  for (uint64_t i = 0; i < sent; ++i) ASSERT_EQ(pair.at_second.messages[i], std::to_string(i));
}

// Whoever sleeps because a peer has no room is woken when there is room.
TEST(ShmTransport, RoomWakesTheSleeper) {
  ShmPair pair;
  for (const bool late : {true, false}) {
    while (pair.first->send(1, bytes_of("x")) == Post::kAccepted) continue;
    if (!late) pair.second->poll(pair.at_second);
    pair.first->arm();
    EXPECT_EQ(pair.first->poll(pair.at_first), 0);
    if (late) {
      EXPECT_FALSE(readable(pair.first->event_fd(), 0));
      pair.second->poll(pair.at_second);
    }
    EXPECT_TRUE(readable(pair.first->event_fd(), kTestLimit));
    EXPECT_EQ(pair.first->poll(pair.at_first), 0);
    EXPECT_FALSE(readable(pair.first->event_fd(), 0)) << "poll takes it away";
    EXPECT_EQ(pair.first->send(1, bytes_of("y")), Post::kAccepted);
  }
}

TEST(ShmTransport, BellOnlyForSleepers) {
  const Fields fields("check_ms: 1e7");
  TransportConfig a = shm_config(0, 2), b = shm_config(1, 2);
  a.params = b.params = fields.params();
  ShmPair pair(a, b);
  const SharedMemory memory(1 << 16, "test");
  const auto from = pair.first->register_memory(block_of(memory));
  const auto to = pair.second->register_memory(block_of(memory));
  const Put put{from.get(), 0, to->remote(), 0, 4096, 1};
  ASSERT_EQ(pair.first->put(1, put), Post::kAccepted);  // fetches the file of the region
  for (int i = 0; i < 64; ++i) pair.poll();             // and has looked at the clock once
  const uint64_t before = pair.first->counters().system_calls;
  const uint64_t before_second = pair.second->counters().system_calls;
  for (size_t i = 0; i < 10000; ++i) {
    ASSERT_EQ(pair.first->put(1, put), Post::kAccepted);
    pair.poll();
    ASSERT_EQ(pair.at_second.puts.size(), i + 2);
  }
  EXPECT_EQ(pair.first->counters().system_calls, before) << "of 10,000 puts";
  EXPECT_EQ(pair.second->counters().system_calls, before_second) << "of 10,000 arrivals";
  EXPECT_EQ(pair.first->counters().copied_bytes, 10001U * 4096);

  pair.second->arm();
  EXPECT_EQ(pair.second->poll(pair.at_second), 0);
  EXPECT_FALSE(readable(pair.second->event_fd(), 0));
  ASSERT_EQ(pair.first->put(1, put), Post::kAccepted);
  ASSERT_EQ(pair.first->put(1, put), Post::kAccepted);
  EXPECT_EQ(pair.first->counters().system_calls, before + 1) << "one bell wakes for both";
  EXPECT_TRUE(readable(pair.second->event_fd(), kTestLimit));
  EXPECT_EQ(pair.second->poll(pair.at_second), 2);
  EXPECT_FALSE(readable(pair.second->event_fd(), 0)) << "poll takes it away";
}

TEST(ShmTransport, PutsPastTheCaches) {
  const Fields fields("stream_bytes: 1");
  TransportConfig a = shm_config(0, 2);
  a.params = fields.params();
  ShmPair pair(a);
  const SharedMemory source(4096, "source"), target(4096, "target");
  const auto from = pair.first->register_memory(block_of(source));
  const auto to = pair.second->register_memory(block_of(target));
  for (size_t i = 0; i < 4096; ++i) source.data()[i] = static_cast<std::byte>(1 + i % 251);
  size_t wrong = 0, puts = 0;
  for (size_t at = 0; at < 130; at += 3) {
    for (size_t bytes = 1; bytes < 400; bytes += 7, ++puts) {
      std::memset(target.data(), 0, 1024);
      ASSERT_EQ(pair.first->put(1, {from.get(), bytes, to->remote(), at, bytes, 1}),
                Post::kAccepted);
      pair.poll();
      for (size_t i = 0; i < 1024; ++i) {
        const bool inside = i >= at && i < at + bytes;
        const std::byte due = inside ? source.data()[bytes + i - at] : std::byte{0};
        wrong += target.data()[i] != due ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(pair.at_second.puts.size(), puts);
}

TEST(ShmTransport, FalseRegionsEndTheLink) {
  const SharedMemory memory(1 << 16, "test");
  for (const int fault : {0, 1, 2}) {
    ShmPair pair;
    auto from = pair.first->register_memory(block_of(memory));
    auto to = pair.second->register_memory(block_of(memory));
    RemoteRegion remote = to->remote();
    if (fault == 0) remote.key += 1;
    if (fault == 1) remote.bytes += 1;
    if (fault == 2) to.reset();  // withdrawn
    if (fault == 2) pair.poll();
    EXPECT_EQ(pair.first->peer_memory(1, remote), nullptr);
    EXPECT_EQ(pair.first->put(1, {from.get(), 0, remote, 0, 1, 1}), Post::kPeerLost) << fault;
    ASSERT_TRUE(pair.until([&] { return !pair.at_second.lost.empty(); })) << fault;
    ASSERT_EQ(pair.at_first.lost.size(), 1U);
    EXPECT_EQ(pair.at_first.lost[0].first, 1);
    EXPECT_NE(pair.at_first.lost[0].second.find("registered"), std::string::npos);
    EXPECT_EQ(pair.second->send(0, bytes_of("x")), Post::kPeerLost);
  }
}

TEST(ShmTransport, MemoryNeedsAFile) {
  const auto transport = make_shm(shm_config(0, 2));
  std::vector<std::byte> plain(100);
  try {
    transport->register_memory({plain.data(), plain.size(), -1});
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("hint: allocate it as SharedMemory"),
              std::string::npos);
  }
  const SharedMemory small(4096, "test");
  EXPECT_THROW(transport->register_memory({small.data(), 1 << 20, small.fd()}), Error);
  const ShmFd loose(memfd_create("loose", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(loose.get(), 4096), 0);
  EXPECT_THROW(transport->register_memory({plain.data(), 100, loose.get()}), Error);
}

TEST(ShmTransport, WhatWasSentBeforeTheEndArrives) {
  ShmPair pair;
  for (int i = 0; i < 500; ++i) pair.first->send(1, bytes_of(std::to_string(i)));
  pair.first->disconnect(1);
  ASSERT_TRUE(pair.until([&] { return !pair.at_second.lost.empty(); }));
  EXPECT_EQ(pair.at_second.messages.size(), 500U);
  EXPECT_TRUE(pair.at_first.lost.empty()) << "disconnect() raises nothing here";
  EXPECT_EQ(pair.first->send(1, bytes_of("x")), Post::kPeerLost);
  EXPECT_EQ(pair.second->send(0, bytes_of("x")), Post::kPeerLost);
}

TEST(ShmTransport, ASuccessorTakesTheRank) {
  ShmPair pair;
  pair.first.reset();
  ASSERT_TRUE(wait_until([&] {
    pair.second->poll(pair.at_second);
    return pair.at_second.lost.size() == 1;
  }));
  const TransportConfig next = shm_config(0, 2, 1);
  pair.first = make_shm(next);
  pair.first->connect(1, 0, pair.second->offer(0));
  for (int i = 0; i < 100; ++i) pair.poll();  // its call waits for our connect()
  EXPECT_EQ(pair.at_second.connected.size(), 1U);
  pair.second->connect(0, 1, pair.first->offer(1));
  ASSERT_TRUE(pair.until(
      [&] { return pair.at_first.connected.size() == 2 && pair.at_second.connected.size() == 2; }));
  ASSERT_EQ(pair.first->send(1, bytes_of("new")), Post::kAccepted);
  ASSERT_TRUE(pair.until([&] { return !pair.at_second.messages.empty(); }));
  EXPECT_EQ(pair.at_second.lost.size(), 1U);
}

TEST(ShmTransport, NobodyThere) {
  const auto transport = make_shm(shm_config(0, 3));
  ShmEvents events;
  transport->connect(1, 0, "kinet-shm/1.0/nobody");
  transport->connect(2, 0, "rubbish");
  ASSERT_TRUE(wait_until([&] { return transport->poll(events), events.lost.size() == 2; }));
  TransportConfig impatient = shm_config(1, 2);
  impatient.timeout = 0.05;
  const auto waiting = make_shm(impatient);
  waiting->connect(0, 0, "whatever");
  ASSERT_TRUE(wait_until([&] { return waiting->poll(events), events.lost.size() == 3; }));
  EXPECT_NE(events.lost[2].second.find("no link within"), std::string::npos);
}

// Dials as rank 0 and says what it likes.
struct FalsePeer {
  explicit FalsePeer(const std::string& name) { shm_dial(name, socket); }
  ShmSend greet(const ShmPacket& packet, const std::string& token) {
    const std::array<int, 2> files{inbox.fd(), bell.get()};
    return shm_send(socket.get(), packet, token, files);
  }
  ShmPacket hello() const {
    ShmPacket out;
    out.to = 1;
    out.value = kShmSmallestRing;
    return out;
  }
  ShmFd socket, bell{eventfd(0, EFD_CLOEXEC)};
  ShmInbox inbox{kShmSmallestRing};
};

TEST(ShmTransport, FalseGreetingsHurtNobody) {
  const TransportConfig config = shm_config(1, 2);
  const auto real = make_shm(config);
  ShmEvents events;
  real->connect(0, 0, "");
  std::vector<std::unique_ptr<FalsePeer>> liars;
  for (int fault = 0; fault < 7; ++fault) {
    liars.push_back(std::make_unique<FalsePeer>(real->offer(0)));
    ShmPacket hello = liars.back()->hello();
    if (fault == 1) hello.from = 1;
    if (fault == 2) hello.from = -5;
    if (fault == 3) hello.to = 0;
    if (fault == 4) hello.to_incarnation = 9;
    if (fault == 5) hello.kind = ShmPacket::Kind::kRegion;
    if (fault == 6) hello.kind = static_cast<ShmPacket::Kind>(77);
    liars.back()->greet(hello, fault == 0 ? "another token" : config.token);
  }
  ShmReceived answer;
  std::string why;
  for (const auto& liar : liars) {
    EXPECT_TRUE(wait_until([&] {
      real->poll(events);
      return shm_receive(liar->socket.get(), "", answer, why) == ShmReceive::kGone;
    }));
  }
  EXPECT_TRUE(events.lost.empty());
  const auto peer = make_shm(shm_config(0, 2));
  peer->connect(1, 0, real->offer(0));
  EXPECT_TRUE(wait_until([&] {
    ShmEvents ignored;
    peer->poll(ignored);
    real->poll(events);
    return !events.connected.empty();
  }));
}

TEST(ShmTransport, RubbishFromAPeerEndsItsLink) {
  for (int fault = 0; fault < 5; ++fault) {
    const TransportConfig config = shm_config(1, 2);
    const auto real = make_shm(config);
    ShmEvents events;
    real->connect(0, 0, "");
    FalsePeer liar(real->offer(0));
    ShmPacket hello = liar.hello();
    if (fault == 0) hello.value = 4097;        // no ring has such a size
    if (fault == 1) hello.value = 1ULL << 29;  // longer than its file
    liar.greet(hello, config.token);
    ShmReceived answer;
    std::string why;
    ASSERT_TRUE(wait_until([&] {
      real->poll(events);
      return !events.lost.empty() ||
             shm_receive(liar.socket.get(), config.token, answer, why) == ShmReceive::kPacket;
    }));
    if (fault == 2) {
      ShmOutbox outbox(answer.files[0].take(), answer.packet.value);
      SharedMemory raw = SharedMemory::from_fd(dup(liar.inbox.fd()), kShmSmallestRing);
      const uint64_t head = 77;  // no place where a cell begins
      std::memcpy(raw.data(), &head, sizeof(head));
      ASSERT_TRUE(wait_until([&] { return real->send(0, bytes_of("x")) != Post::kAccepted; }));
    } else if (fault == 3) {
      const SharedMemory raw = SharedMemory::from_fd(answer.files[0].take(), kShmSmallestRing);
      std::memset(raw.data() + sizeof(ShmRingHeader), 0x77, 64);
      real->arm();
      EXPECT_GT(real->poll(events), 0) << "no sleep over a loss";
    } else if (fault == 4) {
      liar.greet(hello, config.token);  // a second time
    }
    ASSERT_TRUE(wait_until([&] { return real->poll(events), !events.lost.empty(); })) << fault;
    EXPECT_EQ(events.lost.size(), 1U);
    EXPECT_EQ(real->send(0, bytes_of("x")), Post::kPeerLost);
  }
}

// Packets of chance, with and without files and the right token, as a greeting or on a link.
TEST(ShmTransport, RandomPackets) {
  std::mt19937_64 random(1);
  const TransportConfig config = shm_config(1, 2);
  const auto real = make_shm(config);
  ShmEvents events;
  int links = 0;
  const auto look = [&] {  // at descriptors too
    real->arm();
    real->poll(events);
  };
  const size_t before = descriptors();
  for (int i = 0; i < 3000; ++i) {
    if (i % 3 == 0) real->connect(0, 0, "");
    FalsePeer liar(real->offer(0));
    if (i % 3 != 1) liar.greet(liar.hello(), config.token);
    look();
    for (int k = 0; k < 3; ++k) {
      ShmPacket packet = liar.hello();
      if (random() % 4 != 0) packet.kind = static_cast<ShmPacket::Kind>(0x316D6873 + random() % 4);
      if (random() % 2 == 0) packet.key = random() % 3;
      if (random() % 2 == 0) packet.value = random() >> random() % 64;
      if (random() % 4 == 0) packet.from = static_cast<Rank>(random());
      const std::array<int, 2> files{liar.inbox.fd(), liar.bell.get()};
      const std::string token =
          random() % 4 == 0 ? std::string(random() % 2000, 'x') : config.token;
      shm_send(liar.socket.get(), packet, token, std::span(files).first(random() % 3));
      look();
    }
    links += events.connected.empty() ? 0 : 1;
    events = ShmEvents{};
    real->disconnect(0);
  }
  EXPECT_GT(links, 500);
  for (int i = 0; i < 3; ++i) look();
  EXPECT_EQ(descriptors(), before);
}

TEST(ShmTransport, NothingLeaks) {
  const SharedMemory memory(1 << 16, "test");
  size_t files = 0, maps = 0;
  for (int i = 0; i < 200; ++i) {
    ShmPair pair;
    ASSERT_TRUE(pair.up);
    const auto a = pair.first->register_memory(block_of(memory));
    const auto b = pair.second->register_memory(block_of(memory));
    ASSERT_EQ(pair.first->put(1, {a.get(), 0, b->remote(), 0, 100, 1}), Post::kAccepted);
    if (i % 2 == 0) pair.first->disconnect(1);
    for (int k = 0; k < 10; ++k) pair.poll();
    if (i == 10) files = descriptors(), maps = mappings();
    if (i > 10 && i % 2 == 0) {
      ASSERT_EQ(descriptors(), files);
      ASSERT_EQ(mappings(), maps);
    }
  }
}

TEST(ShmTransport, FieldsAreChecked) {
  TransportConfig config = shm_config(0, 2);
  for (const char* text : {"ring_bytes: 5000", "ring_bytes: 2048", "check_ms: 0"}) {
    const Fields fields(text);
    config.params = fields.params();
    EXPECT_THROW(make_shm(config), Error) << text;
  }
  const TransportType& type = *TransportRegistry::instance().find("shm");
  EXPECT_TRUE(type.probe(shm_config(0, 1).params).works);
}

}  // namespace
}  // namespace kinet
