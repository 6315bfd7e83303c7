// The parser: a recursive descent over tokens, which after an error goes on with the next field.
//
//   fields  = { field }
//   field   = name [":"] message | name ":" scalar | name [":"] "[" value { "," value } "]"
//   message = "{" fields "}" | "<" fields ">"
//   scalar  = string { string } | identifier | ["-"] number        then an optional "," or ";"
//
// Going on after an error: what a reader would guess is taken as meant (a missing ':', another
// closing symbol); else tokens are skipped up to the next name that is followed by ':', a message
// or a list, or to the symbol that closes the message. Whole messages are skipped at once, so that
// braces stay paired. With the one error a line of SyntaxErrors, a faulty place is reported once.
//   a: 5 5 b: 1     '5' reported, goes on at b        a: b: 1     "a has no value", goes on at b
#include <fmt/core.h>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/prototxt/escape.h"
#include "src/prototxt/lexer.h"
#include "src/prototxt/node.h"
#include "src/prototxt/value.h"

namespace kinet {
namespace {

constexpr int kDeepest = 100;  // levels of messages: real files need 5; bounds the recursion

class Parser {
 public:
  Parser(std::string_view text, SyntaxErrors& errors) : errors_(errors), lexer_(text, errors) {
    current_ = lexer_.next();
    ahead_ = lexer_.next();
  }

  void fields(ParamNode& owner, const Token* opener, int depth);

 private:
  void field(ParamNode& owner, int depth);
  void value(ParamNode& owner, const Token& name, int depth);
  void list(ParamNode& owner, const Token& name, int depth);
  void message(ParamNode& owner, const Token& name, int depth);
  void scalar(ParamNode& owner, const Token& name);
  void close(const Token& opener);
  ParamNode& add(ParamNode& owner, const Token& name);

  void advance();
  bool accept(char symbol);
  bool at_field_start() const;
  bool at_scalar() const;
  void skip_one();
  void recover();
  void error(const Token& where, const std::string& message) {
    errors_.report(where.line, where.column, message);
  }

  SyntaxErrors& errors_;
  Lexer lexer_;
  Token current_, ahead_;
};

std::string shown(const Token& token) {
  if (token.type == Token::Type::kEnd) return "the end of the file";
  return token.type == Token::Type::kString ? quoted_short(token.text) : "'" + token.text + "'";
}

void Parser::advance() {
  current_ = std::move(ahead_);
  ahead_ = lexer_.next();
}

bool Parser::accept(char symbol) {
  if (!current_.is(symbol)) return false;
  advance();
  return true;
}

// A name with what must follow it: where reading can safely go on after an error.
bool Parser::at_field_start() const {
  return current_.type == Token::Type::kIdentifier &&
         (ahead_.is(':') || ahead_.is_opener() || ahead_.is('['));
}

// An identifier that is itself followed by ':' is the next field: this one's value is missing.
bool Parser::at_scalar() const {
  switch (current_.type) {
    case Token::Type::kString:
    case Token::Type::kNumber:
      return true;
    case Token::Type::kIdentifier:
      return !at_field_start();
    default:
      return current_.is('-');
  }
}

// One token, or a whole message with all that is in it.
void Parser::skip_one() {
  int depth = 0;
  do {
    depth += current_.is_opener() ? 1 : current_.is_closer() ? -1 : 0;
    advance();
  } while (depth > 0 && current_.type != Token::Type::kEnd);
}

void Parser::recover() {
  do {
    skip_one();
  } while (current_.type != Token::Type::kEnd && !current_.is_closer() && !at_field_start());
}

// Up to the symbol that closes `opener`, or to the end of the file when opener is null.
void Parser::fields(ParamNode& owner, const Token* opener, int depth) {
  for (;;) {
    if (current_.type == Token::Type::kEnd) {
      if (opener && !errors_.full() && !lexer_.had_open_string()) {
        error(*opener, fmt::format("this '{}' of '{}' is never closed", opener->text, owner.name));
      }
      return;
    }
    if (!current_.is_closer()) {
      field(owner, depth);
    } else if (opener) {
      return close(*opener);
    } else {
      error(current_, fmt::format("this '{}' closes nothing", current_.text));
      advance();
    }
  }
}

void Parser::close(const Token& opener) {
  const char expected = opener.is('{') ? '}' : '>';
  if (!current_.is(expected)) {
    error(current_, fmt::format("'{}' expected, since line {} opens with '{}'; not '{}'", expected,
                                opener.line, opener.text, current_.text));
  }
  advance();
}

void Parser::field(ParamNode& owner, int depth) {
  if (current_.type != Token::Type::kIdentifier) {
    error(current_, fmt::format("the name of a field was expected, not {}", shown(current_)));
    return recover();
  }
  const Token name = current_;
  advance();
  const bool colon = accept(':');
  if (current_.is('[')) {
    list(owner, name, depth);
  } else {
    if (!colon && at_scalar()) {
      error(current_, fmt::format("':' is missing between '{}' and its value", name.text));
    }
    value(owner, name, depth);
  }
  if (!accept(',')) accept(';');
}

void Parser::value(ParamNode& owner, const Token& name, int depth) {
  if (current_.is_opener()) {
    message(owner, name, depth);
  } else if (at_scalar()) {
    scalar(owner, name);
  } else {
    error(name, fmt::format("field '{}' has no value", name.text));
  }
}

void Parser::list(ParamNode& owner, const Token& name, int depth) {
  const Token opener = current_;
  advance();
  if (accept(']')) return;
  for (;;) {
    value(owner, name, depth);
    if (accept(']')) return;
    if (accept(',')) continue;
    error(current_.line == opener.line ? current_ : opener,
          fmt::format("',' or ']' is missing in the list of '{}'", name.text));
    while (current_.type != Token::Type::kEnd && !current_.is_closer() && !at_field_start()) {
      if (accept(']')) return;
      skip_one();
    }
    return;
  }
}

ParamNode& Parser::add(ParamNode& owner, const Token& name) {
  ParamNode& node = owner.children.emplace_back();
  node.name = name.text;
  node.where = errors_.at(name);
  node.value_where = errors_.at(current_);
  return node;
}

void Parser::message(ParamNode& owner, const Token& name, int depth) {
  if (depth >= kDeepest) {
    error(current_, fmt::format("messages are nested more than {} deep", kDeepest));
    return skip_one();
  }
  ParamNode& node = add(owner, name);
  const Token opener = current_;
  advance();
  fields(node, &opener, depth + 1);
}

void Parser::scalar(ParamNode& owner, const Token& name) {
  ParamNode& node = add(owner, name);
  if (current_.type == Token::Type::kString) {
    node.kind = ParamNode::Kind::kString;
    for (; current_.type == Token::Type::kString; advance()) node.text += current_.text;
    return;
  }
  const bool minus = accept('-');
  const bool number = current_.type == Token::Type::kNumber ||
                      (current_.type == Token::Type::kIdentifier && parse_real(current_.text));
  if (minus && !number) {
    return error(current_, fmt::format("a number was expected after '-', not {}", shown(current_)));
  }
  node.kind = minus || current_.type == Token::Type::kNumber ? ParamNode::Kind::kNumber
                                                             : ParamNode::Kind::kIdentifier;
  node.text = (minus ? "-" : "") + current_.text;
  advance();
}

// Says at once what would else be a list of odd characters.
std::string not_text(std::string_view text) {
  const std::string_view mark = text.substr(0, 2);
  if (mark == "\xFF\xFE" || mark == "\xFE\xFF") return "is UTF-16 text; save it as UTF-8";
  if (text.find('\0') != text.npos) return "is not text: a prototxt file was expected here";
  return "";
}

}  // namespace

ParamNode parse_prototxt(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  ParamNode root;
  SyntaxErrors errors(file, diagnostics);
  root.where = root.value_where = errors.at(Token());
  if (const std::string problem = not_text(text); !problem.empty()) {
    errors.report(1, 1, problem);
    return root;
  }
  Parser(text, errors).fields(root, nullptr, 0);
  return root;
}

ParamNode parse_prototxt_file(const std::string& path) {
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(read_file(path), path, diagnostics);
  diagnostics.throw_if_any();
  KINET_CHECK(!root.children.empty(), "{}: is empty: it has no field", path);
  return root;
}

}  // namespace kinet
