#include "src/base/siphash.h"

#include <bit>

namespace kinet {
namespace {

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

// Up to eight bytes as a number, the first one lowest.
uint64_t word_of(std::span<const std::byte> bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) word |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return word;
}

}  // namespace

uint64_t siphash(const SipKey& key, std::span<const std::byte> data) {
  SipState s{key[0] ^ 0x736F6D6570736575U, key[1] ^ 0x646F72616E646F6DU,
             key[0] ^ 0x6C7967656E657261U, key[1] ^ 0x7465646279746573U};
  const size_t whole = data.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) s.absorb(word_of(data.subspan(i, 8)));
  s.absorb((static_cast<uint64_t>(data.size()) << 56) | word_of(data.subspan(whole)));
  s.v2 ^= 0xFF;
  s.rounds(4);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

SipKey sip_key_of(const std::string& secret) {
  const auto bytes = std::as_bytes(std::span(secret));
  return {siphash({0, 1}, bytes), siphash({0, 2}, bytes)};
}

}  // namespace kinet
