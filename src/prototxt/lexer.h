// Prototxt text as a stream of tokens, and the list of syntax errors they share with the parser.
//
//   identifier  [A-Za-z_][A-Za-z0-9_]*           number  decimal, 0x.., 0.. (octal), 1.5e-3f
//   string      "..." or '...' with \n \x41 \101 \u00e9
//   symbol      { } < > [ ] : , ; -              comment # to the end of the line
// A sign is a token of its own; inf and nan are identifiers: the parser puts them together.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "src/prototxt/node.h"

namespace kinet {

struct Token {
  enum class Type { kEnd, kIdentifier, kNumber, kString, kSymbol };
  Type type = Type::kEnd;
  std::string text;  // of a string: without quotes and escapes
  int line = 1;
  int column = 1;

  bool is(char symbol) const { return type == Type::kSymbol && text[0] == symbol; }
  bool is_opener() const { return is('{') || is('<'); }
  bool is_closer() const { return is('}') || is('>'); }
};

// Syntax errors of one file: at most one a line, since what follows an error on its line is mostly
// its consequence, and at most kMost in all.
class SyntaxErrors {
 public:
  SyntaxErrors(const std::string& file, Diagnostics& diagnostics)
      : file_(std::make_shared<const std::string>(file)), diagnostics_(diagnostics) {}

  void report(int line, int column, const std::string& message);
  bool full() const { return lines_.size() >= kMost; }
  Position at(const Token& token) const { return {file_, token.line, token.column}; }

 private:
  static constexpr size_t kMost = 50;  // errors: more would only hide the first ones
  std::shared_ptr<const std::string> file_;
  Diagnostics& diagnostics_;
  std::set<int> lines_;
};

class Lexer {
 public:
  // Both must outlive the lexer.
  Lexer(std::string_view text, SyntaxErrors& errors);

  // The next token; kEnd at the end of the text and once there are too many errors.
  Token next();

  // A string that is not closed may have swallowed a brace.
  bool had_open_string() const { return had_open_string_; }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool at_line_end() const { return at_end() || peek() == '\n' || peek() == '\r'; }
  void advance();
  void skip_line();
  void skip_space_and_comments();
  void skip_unexpected();
  Token identifier(Token token);
  Token number(Token token);
  Token string(Token token);
  void escape(std::string& out);
  void octal_escape(std::string& out);
  void unicode_escape(int digits, std::string& out);
  int hex_digits(int most, uint32_t& value);

  std::string_view text_;
  SyntaxErrors& errors_;
  size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
  bool had_open_string_ = false;
};

}  // namespace kinet
