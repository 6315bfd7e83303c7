// How the two ends of a tcp stream prove to each other that they belong to the same run.
//
//   acceptor -> dialler  Challenge  a number never used before
//   dialler -> acceptor  Hello      who speaks to whom, which stream, its own number, proof
//   acceptor -> dialler  Welcome    proof; sent once the acceptor's rank has called connect()
// A proof is SipHash-2-4 under the run's token of all that was said, so the token never travels, a
// recorded greeting is worth nothing later, and neither end sends data to a stranger. What follows
// is neither encrypted nor signed: this keeps strangers and processes of other runs out, not those
// who can change packets on the network.
// Pure functions; thread safety: all of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/siphash.h"

namespace kinet {

using Nonce = std::array<uint64_t, 2>;
Nonce random_nonce();

struct Hello {
  uint16_t stream = 0, streams = 1;  // number of this one, and how many the link has
  uint32_t from_rank = 0, from_incarnation = 0;
  uint32_t to_rank = 0, to_incarnation = 0;  // whom the dialler believes to reach
  Nonce nonce{};                             // the dialler's
};

inline constexpr size_t kChallengeBytes = 24, kHelloBytes = 56, kWelcomeBytes = 16;
inline constexpr uint16_t kMaxStreams = 64;  // of a link

std::array<std::byte, kChallengeBytes> encode_challenge(const Nonce& nonce);
std::array<std::byte, kHelloBytes> encode_hello(const Hello& hello, const Nonce& challenge,
                                                const SipKey& key);
std::array<std::byte, kWelcomeBytes> encode_welcome(const Hello& hello, const Nonce& challenge,
                                                    const SipKey& key);

// false: not a greeting of this run. Proofs are compared in constant time.
bool decode_challenge(std::span<const std::byte, kChallengeBytes> bytes, Nonce& nonce);
bool decode_hello(std::span<const std::byte, kHelloBytes> bytes, const Nonce& challenge,
                  const SipKey& key, Hello& hello);
bool check_welcome(std::span<const std::byte, kWelcomeBytes> bytes, const Hello& hello,
                   const Nonce& challenge, const SipKey& key);

}  // namespace kinet
