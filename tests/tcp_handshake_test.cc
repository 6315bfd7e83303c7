// ctest: labels=unit,core,smoke timeout=60
//
// The greeting of tcp streams: the hash against the published values, proofs of the right and of
// every slightly wrong greeting.
#include "comm/transports/tcp_handshake.h"

#include <gtest/gtest.h>

#include <vector>

namespace kinet {
namespace {

const SipKey kKey = sip_key_of("0123456789abcdef0123456789abcdef");
const Nonce kChallenge{11, 22};

Hello hello() {
  Hello h;
  h.stream = 1;
  h.streams = 2;
  h.from_rank = 3;
  h.from_incarnation = 4;
  h.to_rank = 5;
  h.to_incarnation = 6;
  h.nonce = {7, 8};
  return h;
}

// Appendix A of the paper: key 00 01 .. 0f, input 00 01 .. 0e.
TEST(TcpHandshake, HashIsSipHash24) {
  const SipKey key{0x0706050403020100U, 0x0F0E0D0C0B0A0908U};
  std::vector<std::byte> input;
  for (int i = 0; i < 15; ++i) input.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(siphash(key, input), 0xA129CA6149BE45E5U);
  EXPECT_EQ(siphash(key, {}), 0x726FDB47DD0E0E31U);
}

TEST(TcpHandshake, BothEndsProveTheToken) {
  Nonce nonce{};
  ASSERT_TRUE(decode_challenge(encode_challenge(kChallenge), nonce));
  EXPECT_EQ(nonce, kChallenge);
  Hello got;
  ASSERT_TRUE(decode_hello(encode_hello(hello(), nonce, kKey), kChallenge, kKey, got));
  EXPECT_EQ(got.stream, 1);
  EXPECT_EQ(got.streams, 2);
  EXPECT_EQ(got.from_rank, 3U);
  EXPECT_EQ(got.from_incarnation, 4U);
  EXPECT_EQ(got.to_rank, 5U);
  EXPECT_EQ(got.to_incarnation, 6U);
  EXPECT_TRUE(check_welcome(encode_welcome(got, kChallenge, kKey), hello(), nonce, kKey));
}

TEST(TcpHandshake, EveryChangedBitIsRefused) {
  const auto right = encode_hello(hello(), kChallenge, kKey);
  for (size_t bit = 0; bit < 8 * right.size(); ++bit) {
    auto bytes = right;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    Hello got;
    EXPECT_FALSE(decode_hello(bytes, kChallenge, kKey, got)) << "bit " << bit;
  }
  const auto welcome = encode_welcome(hello(), kChallenge, kKey);
  for (size_t bit = 0; bit < 8 * welcome.size(); ++bit) {
    auto bytes = welcome;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(check_welcome(bytes, hello(), kChallenge, kKey)) << "bit " << bit;
  }
}

TEST(TcpHandshake, OtherRunsOldGreetingsAndEchoesAreRefused) {
  Hello got;
  const SipKey other = sip_key_of("0123456789abcdef0123456789abcdee");
  EXPECT_FALSE(decode_hello(encode_hello(hello(), kChallenge, other), kChallenge, kKey, got));
  const Nonce later{11, 23};
  EXPECT_FALSE(decode_hello(encode_hello(hello(), kChallenge, kKey), later, kKey, got));
  // The proof of a hello is none of a welcome.
  const auto said = encode_hello(hello(), kChallenge, kKey);
  auto echo = encode_welcome(hello(), kChallenge, kKey);
  std::copy(said.end() - 8, said.end(), echo.end() - 8);
  EXPECT_FALSE(check_welcome(echo, hello(), kChallenge, kKey));
  // A stream number outside of the link, from one who knows the token.
  Hello odd = hello();
  odd.stream = 2;
  EXPECT_FALSE(decode_hello(encode_hello(odd, kChallenge, kKey), kChallenge, kKey, got));
  odd.stream = 0;
  odd.streams = 0;
  EXPECT_FALSE(decode_hello(encode_hello(odd, kChallenge, kKey), kChallenge, kKey, got));
}

TEST(TcpHandshake, NoncesDiffer) { EXPECT_NE(random_nonce(), random_nonce()); }

}  // namespace
}  // namespace kinet
