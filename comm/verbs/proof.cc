#include "comm/verbs/proof.h"

#include <bit>
#include <cstring>
#include <vector>

namespace kinet::verbs {
namespace {

struct State {
  uint64_t a, b, c, d;
  void round() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  void absorb(uint64_t word) {
    d ^= word;
    round();
    round();
    a ^= word;
  }
};

}  // namespace

uint64_t siphash(const std::array<uint64_t, 2>& key, std::span<const uint8_t> bytes) {
  State s{key[0] ^ 0x736F6D6570736575ULL, key[1] ^ 0x646F72616E646F6DULL,
          key[0] ^ 0x6C7967656E657261ULL, key[1] ^ 0x7465646279746573ULL};
  const size_t words = bytes.size() / 8;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + 8 * i, 8);
    s.absorb(word);
  }
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (size_t i = 8 * words; i < bytes.size(); ++i) {
    last |= static_cast<uint64_t>(bytes[i]) << (8 * (i % 8));
  }
  s.absorb(last);
  s.c ^= 0xFF;
  for (int i = 0; i < 4; ++i) s.round();
  return s.a ^ s.b ^ s.c ^ s.d;
}

uint64_t proof(const std::string& token, std::span<const uint32_t> facts) {
  const std::span<const uint8_t> text{reinterpret_cast<const uint8_t*>(token.data()), token.size()};
  // The token is a text of any length: two hashes of it make the key.
  const std::array<uint64_t, 2> key{siphash({1, 2}, text), siphash({3, 4}, text)};
  std::vector<uint8_t> bytes(facts.size() * sizeof(uint32_t));
  std::memcpy(bytes.data(), facts.data(), bytes.size());
  return siphash(key, bytes);
}

}  // namespace kinet::verbs
