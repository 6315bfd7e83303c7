// Reference: ITU-T T.81 annex B (JPEG markers); RFC 2083 section 3 (PNG chunks).
#include "data/image_format.h"

#include <algorithm>
#include <array>

namespace kinet {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint8_t kMarker = 0xff, kStartOfImage = 0xd8, kEndOfImage = 0xd9, kStartOfScan = 0xda;

// Markers that stand alone, without a length: TEM, RST0 to RST7.
bool stands_alone(uint8_t code) { return code == 0x01 || (code >= 0xd0 && code <= 0xd7); }

// Position of the first marker at or after `at` that ends entropy-coded data, or the size. Inside
// such data ff 00 is a byte ff, and restart markers belong to it.
size_t after_scan(Bytes b, size_t at) {
  for (; at + 1 < b.size(); ++at) {
    if (b[at] != kMarker) continue;
    const uint8_t code = b[at + 1];
    if (code != 0 && code != kMarker && !stands_alone(code)) return at;
  }
  return b.size();
}

// Walks segment by segment: an end-of-image inside a segment (a thumbnail) does not count.
bool jpeg_is_whole(Bytes b) {
  size_t at = 2;
  while (at + 1 < b.size()) {
    if (b[at] != kMarker) return false;
    const uint8_t code = b[at + 1];
    if (code == kMarker) {  // fill byte
      ++at;
      continue;
    }
    if (code == kEndOfImage) return true;
    at += 2;
    if (stands_alone(code)) continue;
    if (at + 1 >= b.size()) return false;
    at += static_cast<size_t>(b[at]) << 8 | b[at + 1];
    if (code == kStartOfScan) at = after_scan(b, at);
  }
  return false;
}

bool png_is_whole(Bytes b) {
  constexpr std::array<uint8_t, 4> kEnd{'I', 'E', 'N', 'D'};
  size_t at = 8;
  while (at + 12 <= b.size()) {
    const uint64_t length = uint64_t{b[at]} << 24 | b[at + 1] << 16 | b[at + 2] << 8 | b[at + 3];
    const bool end = std::equal(kEnd.begin(), kEnd.end(), b.begin() + at + 4);
    if (b.size() - at - 12 < length) return false;
    if (end) return true;
    at += 12 + length;
  }
  return false;
}

}  // namespace

std::string image_trouble(Bytes b) {
  constexpr std::array<uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (b.empty()) return "empty file";
  if (b.size() >= 2 && b[0] == kMarker && b[1] == kStartOfImage) {
    return jpeg_is_whole(b) ? "" : "truncated or damaged JPEG (no end of image)";
  }
  if (b.size() >= kPng.size() && std::equal(kPng.begin(), kPng.end(), b.begin())) {
    return png_is_whole(b) ? "" : "truncated or damaged PNG (no end chunk)";
  }
  return "";
}

}  // namespace kinet
