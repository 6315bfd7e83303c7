// From bytes to tokens. Whatever the bytes, reading goes on: a character that begins no token is
// reported and left out, a string that is not closed ends with its line, and a number that is none
// stays a number token, so that the parser does not report the same place again.
#include "src/prototxt/lexer.h"

#include <fmt/core.h>

#include <algorithm>

#include "src/prototxt/escape.h"
#include "src/prototxt/value.h"

namespace kinet {
namespace {

// Not <cctype>: these must not depend on the locale nor on char being signed.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_symbol(char c) { return std::string_view("{}<>[]:,;-").find(c) != std::string_view::npos; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void SyntaxErrors::report(int line, int column, const std::string& message) {
  if (full() || !lines_.insert(line).second) return;
  const Position where{file_, line, column};
  diagnostics_.error(where, message);
  if (full()) diagnostics_.error(where, "too many errors: the rest of the file was not read");
}

Lexer::Lexer(std::string_view text, SyntaxErrors& errors) : text_(text), errors_(errors) {
  if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;  // a byte order mark, as some editors write
}

// One byte on. Columns count characters; "\n", "\r\n" and a lone "\r" end a line.
void Lexer::advance() {
  const char c = text_[at_++];
  if (c == '\n' || (c == '\r' && peek() != '\n')) {
    ++line_;
    column_ = 1;
  } else if ((static_cast<uint8_t>(peek()) & 0xC0) != 0x80) {
    ++column_;
  }
}

void Lexer::skip_line() {
  while (!at_line_end()) advance();
}

void Lexer::skip_space_and_comments() {
  while (!at_end()) {
    const char c = peek();
    if (c == '#') {
      skip_line();
    } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
      advance();
    } else {
      return;
    }
  }
}

// Reports a character that begins no token, and leaves it out.
void Lexer::skip_unexpected() {
  if (peek() == '/' && (peek(1) == '/' || peek(1) == '*')) {
    errors_.report(line_, column_, "comments begin with '#', not with '/'");
    return skip_line();
  }
  const size_t length = utf8_length(text_, at_);
  const auto byte = static_cast<uint8_t>(peek());
  const bool printable = length > 1 || (byte > 0x20 && byte < 0x7F);
  std::string message = printable ? fmt::format("unexpected '{}'", text_.substr(at_, length))
                                  : fmt::format("unexpected byte 0x{:02X}", byte);
  if (length > 1) message += " (strings are written in plain quotes: \" or ')";
  errors_.report(line_, column_, message);
  for (size_t i = 0; i < std::max<size_t>(length, 1); ++i) advance();
}

Token Lexer::next() {
  for (;;) {
    skip_space_and_comments();
    Token token;
    token.line = line_;
    token.column = column_;
    if (at_end() || errors_.full()) return token;
    const char c = peek();
    if (is_letter(c)) return identifier(token);
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number(token);
    if (c == '"' || c == '\'') return string(token);
    if (is_symbol(c)) {
      token.type = Token::Type::kSymbol;
      token.text = c;
      advance();
      return token;
    }
    skip_unexpected();
  }
}

Token Lexer::identifier(Token token) {
  token.type = Token::Type::kIdentifier;
  while (is_letter(peek()) || is_digit(peek())) {
    token.text += peek();
    advance();
  }
  return token;
}

// Takes all that sticks to the number, so that "5x5" is one wrong number and not a number and a
// name; a sign belongs to it after the exponent's e: 1e-3.
Token Lexer::number(Token token) {
  token.type = Token::Type::kNumber;
  const bool hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
  for (char last = 0;; last = token.text.back()) {
    const char c = peek();
    const bool exponent_sign = (c == '-' || c == '+') && (last == 'e' || last == 'E') && !hex;
    if (!is_letter(c) && !is_digit(c) && c != '.' && !exponent_sign) break;
    token.text += c;
    advance();
  }
  int64_t integer = 0;
  if (parse_integer(token.text, integer) == IntegerText::kNotInteger && !parse_real(token.text)) {
    errors_.report(token.line, token.column, fmt::format("'{}' is not a number", token.text));
  }
  return token;
}

// Text between quotes, on one line. Bytes over 127 are taken as they are: Latin-1 paths stay
// usable.
Token Lexer::string(Token token) {
  token.type = Token::Type::kString;
  const char quote = peek();
  advance();
  while (!at_line_end() && peek() != quote) {
    if (peek() == '\\') {
      escape(token.text);
    } else {
      token.text += peek();
      advance();
    }
  }
  if (peek() == quote && !at_end()) {
    advance();
  } else {
    had_open_string_ = true;
    errors_.report(token.line, token.column, "this string is not closed on its line");
  }
  return token;
}

// At a backslash.
void Lexer::escape(std::string& out) {
  static constexpr std::string_view kLetters = "abfnrtv\\'\"?";
  static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"?";
  const int line = line_, column = column_;
  advance();
  if (at_line_end()) return;  // string() says that it is not closed
  const char c = peek();
  if (const size_t known = kLetters.find(c); known != kLetters.npos) {
    out += kMeanings[known];
    return advance();
  }
  if (c >= '0' && c <= '7') return octal_escape(out);
  if (c == 'u' || c == 'U') return unicode_escape(c == 'u' ? 4 : 8, out);
  uint32_t value = 0;
  if ((c == 'x' || c == 'X') && hex_value(peek(1)) >= 0) {
    advance();
    hex_digits(2, value);
    out += static_cast<char>(value);
    return;
  }
  errors_.report(line, column, "unknown escape in a string; a backslash itself is written \\\\");
  out += c;
  advance();
}

// Up to three digits: \0, \60, \377.
void Lexer::octal_escape(std::string& out) {
  uint32_t value = 0;
  const int line = line_, column = column_;
  for (int i = 0; i < 3 && peek() >= '0' && peek() <= '7'; ++i, advance()) {
    value = value * 8 + static_cast<uint32_t>(peek() - '0');
  }
  if (value > 255) errors_.report(line, column, "an octal escape goes up to \\377");
  out += static_cast<char>(value);
}

// At most `most` digits into value; returns how many there were.
int Lexer::hex_digits(int most, uint32_t& value) {
  int count = 0;
  for (value = 0; count < most && hex_value(peek()) >= 0; ++count, advance()) {
    value = value * 16 + static_cast<uint32_t>(hex_value(peek()));
  }
  return count;
}

// \uXXXX or \UXXXXXXXX, also as a pair of surrogates, which is how JSON writers put it.
void Lexer::unicode_escape(int digits, std::string& out) {
  const int line = line_, column = column_;
  advance();
  uint32_t code = 0, low = 0;
  bool right = hex_digits(digits, code) == digits;
  const bool high_surrogate = code >= 0xD800 && code < 0xDC00;
  if (right && high_surrogate && peek() == '\\' && peek(1) == 'u') {
    advance(), advance();
    right = hex_digits(4, low) == 4 && low >= 0xDC00 && low < 0xE000;
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (!right || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    errors_.report(line, column, "this escape names no Unicode character");
    return;
  }
  append_utf8(code, out);
}

}  // namespace kinet
