// long because: its cases share one fixture of links and false peers.
// ctest: labels=unit,core,threads timeout=300
//
// What is tcp's own beyond transport_test: its knobs, strangers at its door, and a peer that knows
// the token but sends frames that cannot be. That peer is lost, nobody else, and nothing is
// written.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/sockets.h"
#include "comm/transport.h"
#include "comm/transports/tcp_address.h"
#include "comm/transports/tcp_frame.h"
#include "comm/transports/tcp_handshake.h"
#include "src/base/check.h"
#include "tests/transport_traffic.h"

namespace kinet {
namespace {

constexpr double kDeadline = 30;  // seconds of one wait
const std::string kToken = "0123456789abcdef0123456789abcdef";
const SipKey kKey = sip_key_of(kToken);

// ---- the knobs ----------------------------------------------------------------------------------

TEST(TcpKnobs, EveryNumberOfStreamsAndSizeOfPieces) {
  for (const char* knobs : {"streams: 1", "streams: 1 piece: 4096 queue: 16", "streams: 5",
                            "streams: 3 piece: 5000 queue: 16 no_delay: false",
                            "send_buffer: 8192 receive_buffer: 8192"}) {
    SCOPED_TRACE(knobs);
    RankRun run;
    run.transport = "tcp";
    run.size = 3;
    run.comm = knobs;
    run_ranks(run, [](TestRank& rank) {
      rank.connect_all();
      for (const size_t bytes :
           {size_t{0}, size_t{16384}, size_t{16385}, size_t{70000}, 3 * kMiB}) {
        put_to_next(rank, bytes);
      }
      chat(rank, 0, rank.size());
    });
  }
}

std::unique_ptr<Transport> make_tcp(Rank rank, int size, const char* knobs = "",
                                    double timeout = kDeadline) {
  const TransportType* type = TransportRegistry::instance().find("tcp");
  Diagnostics diagnostics;
  const ParamNode tree = parse_prototxt(knobs, "f", diagnostics);
  validate(tree, *type->fields, "tcp", diagnostics);
  diagnostics.throw_if_any();
  TransportConfig config;
  config.rank = rank;
  config.size = size;
  config.token = kToken;
  config.params = Params(&tree, type->fields);
  config.timeout = timeout;
  return type->make(config);
}

std::string error_of(const char* knobs) {
  try {
    make_tcp(0, 2, knobs);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(TcpKnobs, WrongValuesAreNamed) {
  EXPECT_EQ(error_of("streams: 0"), "f:1:10: tcp: streams is 0, not between 1 and 64");
  EXPECT_EQ(error_of("piece: 100"), "f:1:8: tcp: piece is 100, not between 4096 and 1073741824");
  EXPECT_EQ(error_of("queue: 3"), "f:1:8: tcp: queue is 3, not between 16 and 65536");
  EXPECT_NE(error_of("interface: 'no-such-0'").find("'no-such-0' is not up"), std::string::npos);
  EXPECT_NE(error_of("address: '127.0.0.1' interface: 'lo'").find("both given"), std::string::npos);
  EXPECT_NE(error_of("address: '203.0.113.7'").find("203.0.113.7"), std::string::npos);
  EXPECT_EQ(error_of("address: '127.0.0.1'"), "no error");
  EXPECT_EQ(error_of("interface: 'lo'"), "no error");
}

TEST(TcpKnobs, ListensOnLoopbackWhenAllAreOnOneMachine) {
  EXPECT_EQ(make_tcp(0, 2)->offer(1).substr(0, 10), "127.0.0.1:");
}

TEST(TcpKnobs, AddressesOfThisMachineWhenRanksAreOnSeveral) {
  TcpOptions options;
  const std::vector<InterfaceAddress> own = own_addresses();
  if (own.empty()) {
    EXPECT_THROW(choose_addresses(options, false), Error);
  } else {
    EXPECT_EQ(choose_addresses(options, false).reachable[0], own[0].address);
    options.interface = own[0].interface;
    EXPECT_EQ(choose_addresses(options, true).listen, own[0].address);
  }
  options.interface = "";
  options.address = "10.1.2.3";
  EXPECT_EQ(choose_addresses(options, true).listen, "10.1.2.3");
  EXPECT_EQ(choose_addresses(options, true).reachable, std::vector<std::string>{"10.1.2.3"});
}

// ---- ranks in one thread ------------------------------------------------------------------------

// A transport and what it has raised.
struct Node : EventSink {
  Node(Rank rank, int size, double timeout = kDeadline)
      : transport(make_tcp(rank, size, "", timeout)), why(size), connected(size), messages(size) {}

  void on_connected(Rank peer) override { connected[peer] = true; }
  void on_message(Rank from, std::span<const std::byte>) override { ++messages[from]; }
  void on_put_arrived(Rank, uint32_t, uint64_t) override { ++arrived; }
  void on_puts_completed(Rank, uint64_t) override {}
  void on_peer_lost(Rank peer, const std::string& text) override {
    EXPECT_EQ(why[peer], "") << "lost twice";
    why[peer] = text;
  }

  std::unique_ptr<Transport> transport;
  std::vector<std::string> why;
  std::vector<bool> connected;
  std::vector<int> messages;
  int arrived = 0;
};

// Ranks 1 and 2 are real and linked; rank 0 is spoken by hand.
class TcpStrangers : public ::testing::Test {
 protected:
  void SetUp() override {
    one.transport->connect(2, 0, two.transport->offer(1));
    two.transport->connect(1, 0, one.transport->offer(2));
    until([&] { return one.connected[2] && two.connected[1]; });
  }

  void until(const std::function<bool()>& done) {
    const Deadline deadline(kDeadline);
    while (!done()) {
      one.transport->poll(one);
      two.transport->poll(two);
      ASSERT_FALSE(deadline.passed()) << "waited in vain";
    }
  }

  // A connection to rank 1 from somebody.
  FileDescriptor dial() {
    std::string why;
    FileDescriptor fd =
        connect_to(parse_host_port(one.transport->offer(0), "offer"), Deadline(kDeadline), why);
    EXPECT_TRUE(fd) << why;
    return fd;
  }

  static bool readable(const FileDescriptor& fd) {
    pollfd p{fd.get(), POLLIN, 0};
    return ::poll(&p, 1, 0) > 0;
  }

  // Polls until rank 1 has closed the connection; what it said is thrown away.
  void until_closed(const FileDescriptor& fd) {
    until([&] {
      std::byte rest[256];
      return readable(fd) && recv(fd.get(), rest, sizeof(rest), MSG_DONTWAIT) <= 0;
    });
  }

  template <size_t kBytes>
  std::array<std::byte, kBytes> receive(const FileDescriptor& fd) {
    std::array<std::byte, kBytes> out{};
    size_t have = 0;
    until([&] {
      const ssize_t n = recv(fd.get(), out.data() + have, kBytes - have, MSG_DONTWAIT);
      if (n > 0) have += static_cast<size_t>(n);
      return have == kBytes;
    });
    return out;
  }

  template <class Bytes>
  static void say(const FileDescriptor& fd, const Bytes& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // Rank 0 of a single stream, greeted and linked.
  FileDescriptor link_as_rank_0(uint32_t incarnation = 0) {
    hello.from_incarnation = incarnation;
    one.transport->connect(0, incarnation, "");
    FileDescriptor fd = dial();
    Nonce challenge{};
    EXPECT_TRUE(decode_challenge(receive<kChallengeBytes>(fd), challenge));
    say(fd, encode_hello(hello, challenge, kKey));
    EXPECT_TRUE(check_welcome(receive<kWelcomeBytes>(fd), hello, challenge, kKey));
    until([&] { return one.connected[0]; });
    return fd;
  }

  void expect_others_go_on() {
    const int before = two.messages[1];
    EXPECT_EQ(one.transport->send(2, message_of(1, 10)), Post::kAccepted);
    until([&] { return two.messages[1] > before; });
    EXPECT_EQ(one.why[2], "");
    EXPECT_EQ(two.why[1], "");
  }

  static Hello hello_to_one() {
    Hello h;
    h.to_rank = 1;
    h.nonce = {5, 6};
    return h;
  }

  Node one{1, 3}, two{2, 3};
  Hello hello = hello_to_one();
};

TEST_F(TcpStrangers, NoiseClosesThatConnectionOnly) {
  const FileDescriptor fd = dial();
  say(fd, message_of(1, kHelloBytes + 100));
  until_closed(fd);
  EXPECT_EQ(one.why[0], "");
  expect_others_go_on();
}

TEST_F(TcpStrangers, AnotherTokenAnotherRankAnotherIncarnationAreRefused) {
  const auto refused = [&](const Hello& said, const SipKey& key) {
    const FileDescriptor fd = dial();
    Nonce challenge{};
    EXPECT_TRUE(decode_challenge(receive<kChallengeBytes>(fd), challenge));
    say(fd, encode_hello(said, challenge, key));
    until_closed(fd);
    EXPECT_FALSE(one.connected[0]);
  };
  refused(hello, sip_key_of("another run"));
  Hello other = hello;
  other.to_rank = 2;
  refused(other, kKey);
  other = hello;
  other.to_incarnation = 1;
  refused(other, kKey);
  one.transport->connect(0, 3, "");  // an older process of rank 0 comes too late
  other = hello;
  other.from_incarnation = 2;
  refused(other, kKey);
  expect_others_go_on();
}

TEST_F(TcpStrangers, AGreetingBeforeConnectIsHeld) {
  const FileDescriptor fd = dial();
  Nonce challenge{};
  ASSERT_TRUE(decode_challenge(receive<kChallengeBytes>(fd), challenge));
  say(fd, encode_hello(hello, challenge, kKey));
  expect_others_go_on();
  EXPECT_FALSE(readable(fd));
  one.transport->connect(0, 0, "");
  EXPECT_TRUE(check_welcome(receive<kWelcomeBytes>(fd), hello, challenge, kKey));
  until([&] { return one.connected[0]; });
}

TEST_F(TcpStrangers, ALinkThatComesUpByHalfIsLostWhenItsDiallerEnds) {
  hello.streams = 2;
  one.transport->connect(0, 0, "");
  {
    const FileDescriptor fd = dial();
    Nonce challenge{};
    EXPECT_TRUE(decode_challenge(receive<kChallengeBytes>(fd), challenge));
    say(fd, encode_hello(hello, challenge, kKey));
    EXPECT_TRUE(check_welcome(receive<kWelcomeBytes>(fd), hello, challenge, kKey));
    EXPECT_EQ(one.transport->send(0, message_of(1, 1)), Post::kBusy);
  }
  until([&] { return !one.why[0].empty(); });
  EXPECT_FALSE(one.connected[0]);
  EXPECT_EQ(one.transport->send(0, message_of(1, 1)), Post::kPeerLost);
  expect_others_go_on();
}

TEST_F(TcpStrangers, WhoNeverComesIsLostAfterTheTimeOut) {
  Node quick(1, 3, 0.3);
  quick.transport->connect(0, 0, "");
  until([&] {
    quick.transport->poll(quick);
    return !quick.why[0].empty();
  });
  EXPECT_EQ(quick.why[0], "no connection within 0.3 s");
}

TEST_F(TcpStrangers, AnOfferThatCannotBeIsALoss) {
  one.transport->connect(2, 1, "no address, no port");
  until([&] { return !one.why[2].empty(); });
}

// The first address is nobody's, at the second somebody else answers, the third is right.
TEST_F(TcpStrangers, EveryAddressOfAnOfferIsTried) {
  Node zero(0, 3);
  Node other(2, 3);
  const std::string offers =
      "127.0.0.1:1 " + other.transport->offer(0) + " " + one.transport->offer(0);
  zero.transport->connect(1, 0, offers);
  one.transport->connect(0, 0, "");
  until([&] {
    zero.transport->poll(zero);
    other.transport->poll(other);
    return zero.connected[1] && one.connected[0];
  });
  EXPECT_EQ(zero.why[1], "");
}

// Every frame that cannot be, from a peer that is linked.
TEST_F(TcpStrangers, CorruptFramesLoseThatPeerOnlyAndWriteNothing) {
  SharedMemory memory(4096, "target");
  const auto region = one.transport->register_memory({memory.data(), 4096, memory.fd()});
  FrameHeader good;
  good.kind = FrameKind::kPut;
  good.length = 8;
  good.total = 8;
  good.key = region->remote().key;
  struct Case {
    const char* name;
    std::function<void(FrameHeader&, FrameBytes&)> damage;  // of the fields, else of the bytes
    const char* why;
  };
  const auto bytes_only = [](size_t at, int value) {
    return [at, value](FrameHeader& h, FrameBytes& bytes) {
      bytes = encode_frame(h);
      bytes[at] = static_cast<std::byte>(value);
    };
  };
  const std::vector<Case> cases{
      {"magic", bytes_only(0, 'X'), "not the start of a frame"},
      {"kind", bytes_only(2, 9), "a frame of kind 9"},
      {"reserved", bytes_only(3, 1), "reserved byte"},
      {"length", [](auto& h, auto&) { h.length = 9; }, "a piece of 9 bytes of a put of 8"},
      {"region", [](auto& h, auto&) { h.key += 1; }, "which is not there"},
      {"offset", [](auto& h, auto&) { h.offset = 4089; }, "which is not there"},
      {"far offset", [](auto& h, auto&) { h.offset = ~uint64_t{0}; }, "a put to offset"},
      {"long message",
       [](auto& h, auto&) {
         h = FrameHeader{};
         h.length = kMaxMessage + 1;
         h.total = h.length;
       },
       "a message of 1025 bytes"},
      {"message out of turn",
       [](auto& h, auto&) {
         h = FrameHeader{};
         h.length = 8;
         h.total = 8;
         h.sequence = 1;
       },
       "message 1 where 0 was due"},
  };
  for (uint32_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    one.why[0].clear();
    one.connected[0] = false;
    const FileDescriptor fd = link_as_rank_0(i);
    FrameHeader header = good;
    FrameBytes bytes{};
    cases[i].damage(header, bytes);
    if (bytes == FrameBytes{}) bytes = encode_frame(header);
    say(fd, bytes);
    say(fd, message_of(9, 8));
    until([&] { return !one.why[0].empty(); });
    EXPECT_NE(one.why[0].find(cases[i].why), std::string::npos) << one.why[0];
    until_closed(fd);
    EXPECT_EQ(one.transport->send(0, message_of(1, 1)), Post::kPeerLost);
    expect_others_go_on();
  }
  EXPECT_TRUE(all_equal(memory.data(), 4096, std::byte{0}));
  EXPECT_EQ(one.arrived, 0);
}

TEST_F(TcpStrangers, PiecesThatDoNotFitTogetherLoseThatPeer) {
  SharedMemory memory(4096, "target");
  const auto region = one.transport->register_memory({memory.data(), 4096, memory.fd()});
  const FileDescriptor fd = link_as_rank_0();
  FrameHeader piece;
  piece.kind = FrameKind::kPut;
  piece.length = 8;
  piece.total = 16;
  piece.key = region->remote().key;
  say(fd, encode_frame(piece));
  say(fd, message_of(9, 8));
  piece.total = 24;
  say(fd, encode_frame(piece));
  say(fd, message_of(9, 8));
  until([&] { return !one.why[0].empty(); });
  EXPECT_EQ(one.why[0], "it sent pieces of put 0 that do not fit together");
  EXPECT_EQ(one.arrived, 0);
  expect_others_go_on();
}

TEST_F(TcpStrangers, WhatCameBeforeTheEndIsStillRaised) {
  {
    const FileDescriptor fd = link_as_rank_0();
    FrameHeader header;
    header.length = 8;
    header.total = 8;
    say(fd, encode_frame(header));
    say(fd, message_of(9, 8));
  }
  until([&] { return !one.why[0].empty(); });
  EXPECT_EQ(one.messages[0], 1);
  EXPECT_EQ(one.why[0], "its socket was closed");
}

}  // namespace
}  // namespace kinet
