#include "comm/transports/tcp_handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "comm/transports/tcp_bytes.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr uint32_t kChallengeMagic = 0x314B4E4B;  // "KNK1"
constexpr uint32_t kHelloMagic = 0x32484E4B;      // "KNH2"
constexpr uint32_t kWelcomeMagic = 0x33574E4B;    // "KNW3"
constexpr uint32_t kVersion = 1;                  // of frames and greetings together

// No early end: how long it takes does not tell how many bytes are right.
bool equal_in_constant_time(uint64_t a, uint64_t b) {
  uint64_t difference = a ^ b;
  volatile uint8_t any = 0;
  for (int i = 0; i < 8; ++i, difference >>= 8) any = any | static_cast<uint8_t>(difference);
  return any == 0;
}

constexpr size_t kProofAt = kHelloBytes - sizeof(uint64_t);
static_assert(8 + 2 * 2 + 4 * 4 + 2 * 8 + 4 == kProofAt);

// All of a hello but its proof.
std::array<std::byte, kHelloBytes> hello_fields(const Hello& h) {
  std::array<std::byte, kHelloBytes> out{};
  std::byte* b = out.data();
  store_number(b, kHelloMagic);
  store_number(b + 4, kVersion);
  store_number(b + 8, h.stream);
  store_number(b + 10, h.streams);
  store_number(b + 12, h.from_rank);
  store_number(b + 16, h.from_incarnation);
  store_number(b + 20, h.to_rank);
  store_number(b + 24, h.to_incarnation);
  store_number(b + 28, h.nonce[0]);
  store_number(b + 36, h.nonce[1]);
  return out;
}

// The two proofs differ in the magic number that ends what they are taken of.
uint64_t proof(const Hello& hello, const Nonce& challenge, const SipKey& key, uint32_t magic) {
  const auto fields = hello_fields(hello);
  std::array<std::byte, kProofAt + 20> said{};
  std::memcpy(said.data(), fields.data(), kProofAt);
  store_number(&said[kProofAt], challenge[0]);
  store_number(&said[kProofAt + 8], challenge[1]);
  store_number(&said[kProofAt + 16], magic);
  return siphash(key, said);
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce{};
  if (getrandom(nonce.data(), sizeof(nonce), 0) != static_cast<ssize_t>(sizeof(nonce))) {
    fail_runtime("the system's random generator gives nothing: {}", std::strerror(errno));
  }
  return nonce;
}

std::array<std::byte, kChallengeBytes> encode_challenge(const Nonce& nonce) {
  std::array<std::byte, kChallengeBytes> out{};
  store_number(out.data(), kChallengeMagic);
  store_number(&out[4], kVersion);
  store_number(&out[8], nonce[0]);
  store_number(&out[16], nonce[1]);
  return out;
}

bool decode_challenge(std::span<const std::byte, kChallengeBytes> bytes, Nonce& nonce) {
  const std::byte* b = bytes.data();
  nonce = {load_number<uint64_t>(b + 8), load_number<uint64_t>(b + 16)};
  return load_number<uint32_t>(b) == kChallengeMagic && load_number<uint32_t>(b + 4) == kVersion;
}

std::array<std::byte, kHelloBytes> encode_hello(const Hello& hello, const Nonce& challenge,
                                                const SipKey& key) {
  auto out = hello_fields(hello);
  store_number(&out[kProofAt], proof(hello, challenge, key, kHelloMagic));
  return out;
}

bool decode_hello(std::span<const std::byte, kHelloBytes> bytes, const Nonce& challenge,
                  const SipKey& key, Hello& h) {
  const std::byte* b = bytes.data();
  h.stream = load_number<uint16_t>(b + 8);
  h.streams = load_number<uint16_t>(b + 10);
  h.from_rank = load_number<uint32_t>(b + 12);
  h.from_incarnation = load_number<uint32_t>(b + 16);
  h.to_rank = load_number<uint32_t>(b + 20);
  h.to_incarnation = load_number<uint32_t>(b + 24);
  h.nonce = {load_number<uint64_t>(b + 28), load_number<uint64_t>(b + 36)};
  const auto fields = hello_fields(h);
  if (!std::equal(fields.begin(), fields.begin() + kProofAt, b)) return false;
  const uint64_t right = proof(h, challenge, key, kHelloMagic);
  if (!equal_in_constant_time(load_number<uint64_t>(b + kProofAt), right)) return false;
  return h.streams >= 1 && h.streams <= kMaxStreams && h.stream < h.streams;
}

std::array<std::byte, kWelcomeBytes> encode_welcome(const Hello& hello, const Nonce& challenge,
                                                    const SipKey& key) {
  std::array<std::byte, kWelcomeBytes> out{};
  store_number(out.data(), kWelcomeMagic);
  store_number(&out[4], kVersion);
  store_number(&out[8], proof(hello, challenge, key, kWelcomeMagic));
  return out;
}

bool check_welcome(std::span<const std::byte, kWelcomeBytes> bytes, const Hello& hello,
                   const Nonce& challenge, const SipKey& key) {
  const std::byte* b = bytes.data();
  const uint64_t right = proof(hello, challenge, key, kWelcomeMagic);
  return load_number<uint32_t>(b) == kWelcomeMagic && load_number<uint32_t>(b + 4) == kVersion &&
         equal_in_constant_time(load_number<uint64_t>(b + 8), right);
}

}  // namespace kinet
