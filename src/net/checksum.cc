// Writing and checking the last field of a binary file.
#include "src/net/checksum.h"

#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/base/text.h"

namespace kinet {
namespace {

// Field 10001 of wire type 1 (64 bits) as a varint: (10001 << 3) | 1.
constexpr std::string_view kTag = "\x89\xF1\x04";
constexpr size_t kHashBytes = 8;

std::string hash_of(std::string_view bytes) {
  const uint64_t hash = hash_name(bytes);
  std::string out;
  for (size_t i = 0; i < kHashBytes; ++i) out += static_cast<char>(hash >> (8 * i) & 0xFF);
  return out;
}

}  // namespace

void append_checksum(std::string& bytes) {
  const std::string hash = hash_of(bytes);
  bytes += kTag;
  bytes += hash;
}

void verify_checksum(const std::string& bytes, bool wanted, const std::string& path) {
  const std::string_view all = bytes;
  constexpr size_t kLength = kTag.size() + kHashBytes;
  const size_t end = all.size() < kLength ? 0 : all.size() - kLength;
  if (all.substr(end, kTag.size()) != kTag) {
    KINET_CHECK(!wanted, "{}: damaged or cut off ({}): its checksum is missing", path,
                human_bytes(bytes.size()));
    return;
  }
  KINET_CHECK(all.substr(end + kTag.size()) == hash_of(all.substr(0, end)),
              "{}: is damaged: checksum differs\nhint: take another copy, or an older snapshot",
              path);
}

}  // namespace kinet
