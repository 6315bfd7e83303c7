#include "comm/transports/tcp_handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "comm/transports/tcp_bytes.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr uint32_t kChallengeMagic = 0x314B4E4B;  // "KNK1"
constexpr uint32_t kHelloMagic = 0x32484E4B;      // "KNH2"
constexpr uint32_t kWelcomeMagic = 0x33574E4B;    // "KNW3"
constexpr uint32_t kVersion = 1;                  // of frames and greetings together

struct SipState {
  uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
  void absorb(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
};

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

uint64_t siphash(const SipKey& key, std::span<const std::byte> data) {
  SipState s{key[0] ^ 0x736F6D6570736575U, key[1] ^ 0x646F72616E646F6DU,
             key[0] ^ 0x6C7967656E657261U, key[1] ^ 0x7465646279746573U};
  const size_t whole = data.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) s.absorb(load_number<uint64_t>(&data[i]));
  uint64_t last = static_cast<uint64_t>(data.size()) << 56;
  for (size_t i = whole; i < data.size(); ++i) {
    last |= std::to_integer<uint64_t>(data[i]) << (8 * (i - whole));
  }
  s.absorb(last);
  s.v2 ^= 0xFF;
  s.rounds(4);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// A token may have any length; the two words of the key are two hashes of it.
SipKey key_of_token(const std::string& token) {
  const auto bytes = std::as_bytes(std::span(token));
  return {siphash({0, 1}, bytes), siphash({0, 2}, bytes)};
}

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
