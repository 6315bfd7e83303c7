// Characters of prototxt strings: escapes for printing, UTF-8 for reading.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kinet {

// The string in double quotes, with escapes for quotes, backslashes, control characters and bytes
// that are not UTF-8: reads back to the same bytes and is safe to print on a terminal.
std::string quoted(std::string_view text);

// The same, cut to about 60 bytes: for messages.
std::string quoted_short(std::string_view text);

// Bytes of the valid UTF-8 character that begins at text[at]; 0 when there is none.
size_t utf8_length(std::string_view text, size_t at);

// REQUIRES: code is a Unicode scalar value (not a surrogate, <= 0x10FFFF).
void append_utf8(uint32_t code, std::string& out);

}  // namespace kinet
