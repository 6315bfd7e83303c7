// A parsed prototxt file: a tree of named fields with positions, in file order.
//
// The parser knows nothing of layers or solvers: which fields exist and of what kind is declared
// beside the class that reads them (fields.h) and checked afterwards.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kinet {

// Where something stands in a file; lines and columns count from 1.
struct Position {
  std::shared_ptr<const std::string> file;  // as given by the user; null: made by the program
  int line = 0;
  int column = 0;
  std::string str() const;  // "models/lenet/net.prototxt:12:3"
};

class ParamNode {
 public:
  enum class Kind { kMessage, kString, kIdentifier, kNumber };

  std::string name;  // of the field; "" for the root
  Kind kind = Kind::kMessage;
  std::string text;                 // a scalar's value: unescaped string, identifier, or the number
  Position where;                   // of the field's name
  Position value_where;             // of its value
  std::vector<ParamNode> children;  // of a message: each given value is one child, in file order

  bool is_message() const { return kind == Kind::kMessage; }

  // The last child of that name (protobuf's rule), or null.
  const ParamNode* find(std::string_view name) const;
  ParamNode* find(std::string_view name);
  std::vector<const ParamNode*> find_all(std::string_view name) const;

  // For programs that build or rewrite trees. add() appends and returns the new child.
  ParamNode& add_message(std::string name);
  ParamNode& add_string(std::string name, std::string value);
  ParamNode& add_scalar(std::string name, std::string value);  // identifier or number
  void erase(std::string_view name);

  // Prototxt text that parses to the same tree.
  std::string to_text(int indent = 0) const;
};

// All that is wrong with a file, gathered so that the user sees it in one run.
class Diagnostics {
 public:
  void error(const Position& where, const std::string& message);
  void note(const Position& where, const std::string& message);  // printed, never fatal
  // The first time for this subject and file only.
  void note_once(const std::string& subject, const Position& where, const std::string& message);
  bool ok() const { return errors_.empty(); }
  const std::vector<std::string>& errors() const { return errors_; }  // "file:line:column: message"
  const std::vector<std::string>& notes() const { return notes_; }
  void throw_if_any() const;  // one Error with every message, a line each

 private:
  std::vector<std::string> errors_, notes_;
  std::set<std::string> subjects_;  // of note_once, with their file
};

// Parses text; `file` is the name that positions carry. Syntax errors go to `diagnostics`, and
// parsing goes on after the faulty field.
ParamNode parse_prototxt(std::string_view text, const std::string& file, Diagnostics& diagnostics);

// Reads and parses a file; throws Error with every syntax error.
ParamNode parse_prototxt_file(const std::string& path);

// A path written in a prototxt: relative to the folder of the file it is written in when it exists
// there, so that a model works from wherever it is started; else as it stands, that is relative to
// the current folder (Caffe's rule). When neither exists it is returned as it stands (the reader's
// error should name both: describe_path).
std::string resolve_path(const std::string& written, const Position& where);

// "'x.lmdb' (looked for at /a/models/x.lmdb and /a/x.lmdb)".
std::string describe_path(const std::string& written, const Position& where);

}  // namespace kinet
