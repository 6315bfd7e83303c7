// Reference: RFC 3629 (UTF-8; table of well-formed sequences in section 4).
#include "src/prototxt/escape.h"

#include <fmt/core.h>

namespace kinet {
namespace {

constexpr size_t kShortBytes = 60;  // of a value shown in a message: one line of a terminal

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

void append_escaped(char c, std::string& out) {
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    default:
      break;
  }
  const auto byte = static_cast<uint8_t>(c);
  // Always three octal digits, so that a digit that follows is not taken for a part of it.
  out += byte < 0x20 || byte >= 0x7F ? fmt::format("\\{:03o}", byte) : std::string(1, c);
}

}  // namespace

size_t utf8_length(std::string_view text, size_t at) {
  const uint8_t lead = byte_at(text, at);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0  // a continuation byte, or an overlong form
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const uint8_t second = byte_at(text, at + 1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool too_large = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

void append_utf8(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length > 1) {
      out += text.substr(i, length);
      i += length;
    } else {
      append_escaped(text[i++], out);
    }
  }
  return out + "\"";
}

std::string quoted_short(std::string_view text) {
  if (text.size() <= kShortBytes) return quoted(text);
  size_t end = kShortBytes;
  while (end > kShortBytes - 4 && (byte_at(text, end) & 0xC0) == 0x80) --end;  // whole characters
  std::string out = quoted(text.substr(0, end));
  out.insert(out.size() - 1, "...");
  return out;
}

}  // namespace kinet
