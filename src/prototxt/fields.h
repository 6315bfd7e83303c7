// Declared fields: every class that reads a prototxt message declares its fields beside itself;
// files are checked against the declarations before anything is set up, and the reference page
// docs/model_files.md is generated from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/prototxt/node.h"

namespace kinet {

// kInt: -2147483648 to 2147483647, or 64 bits when the field is wide; kUint: 0 to 2147483647
// (counts and sizes, which fit an int); kFloat: up to 3.4e38, and finite in a valid file.
enum class FieldKind { kInt, kUint, kFloat, kBool, kString, kEnum, kMessage };

struct MessageType;

struct EnumValue {
  std::string name;
  int number = 0;  // files may give the number instead of the name
};

struct Field {
  std::string name;
  FieldKind kind = FieldKind::kInt;
  bool repeated = false;
  std::string default_value;             // as text; "" = unset (or empty string)
  std::string help;                      // one line, with the unit
  std::vector<EnumValue> values;         // of an enum
  const MessageType* message = nullptr;  // of a message
  bool wide = false;                     // kInt: 64 bits, as Caffe's int64
  bool no_effect = false;                // a known Caffe field that kinet accepts and ignores
  bool is_path = false;                  // a string that names a file or folder (resolve_path)
};

struct MessageType {
  std::string name;  // the field's usual name: "convolution_param"
  std::string help;
  std::vector<Field> fields;

  const Field* find(const std::string& field) const;
  std::vector<std::string> field_names() const;
};

// Short forms for declarations.
Field int_field(std::string name, std::string default_value, std::string help);
Field uint_field(std::string name, std::string default_value, std::string help);
Field float_field(std::string name, std::string default_value, std::string help);
Field bool_field(std::string name, std::string default_value, std::string help);
Field string_field(std::string name, std::string default_value, std::string help);
Field path_field(std::string name, std::string help);  // a string without a default
Field enum_field(std::string name, std::vector<EnumValue> values, std::string default_value,
                 std::string help);
Field message_field(std::string name, const MessageType& type, std::string help);
Field repeated(Field field);   // the same field, any number of times
Field wide(Field field);       // an int field of 64 bits
Field no_effect(Field field);  // accepted for Caffe's sake, noted once

// Checks `node` against `type`, all the way down: unknown fields (with the nearest name), wrong
// kinds, bad numbers, inf and nan, unknown enum values, singular fields given twice (both
// positions), fields without effect (a note). `context` names the owner in messages: "layer
// 'conv1'".
void validate(const ParamNode& node, const MessageType& type, const std::string& context,
              Diagnostics& diagnostics);

// Replaces every relative path in `node` by the absolute one that it stands for: for copies of a
// file that are put elsewhere.
void make_paths_absolute(ParamNode& node, const MessageType& type);

// A message as its declared type sees it: typed getters that fall back to the declared default.
// Thread safety: immutable. Lifetime: node and type must outlive it.
// A repeated field that is absent is empty, or its declared default as the only value.
// A value that does not suit its declaration (the tree was not validated) throws with its position.
// Asking for a field that is not declared, or with another kind, is a programmer's error and
// throws.
class Params {
 public:
  // A null node is an absent message: every getter returns the default.
  Params(const ParamNode* node, const MessageType* type) : node_(node), type_(type) {}

  bool present() const { return node_ != nullptr; }
  bool has(const std::string& field) const;  // given in the file
  int count(const std::string& field) const;

  int64_t get_int(const std::string& field) const;
  // The same, for what is an int of 32 bits in Caffe; throws Error with the place beyond that.
  int get_int32(const std::string& field) const;  // kInt and kUint
  double get_double(const std::string& field) const;
  float get_float(const std::string& field) const;
  bool get_bool(const std::string& field) const;
  std::string get_string(const std::string& field) const;
  std::string get_enum(const std::string& field) const;  // the value's declared name

  std::vector<int64_t> get_ints(const std::string& field) const;
  std::vector<float> get_floats(const std::string& field) const;
  std::vector<std::string> get_strings(const std::string& field) const;

  Params message(const std::string& field) const;
  std::vector<Params> messages(const std::string& field) const;

  // Where the field's value (or, when it is absent, the message) stands.
  Position where(const std::string& field) const;
  Position where() const;
  const ParamNode* node() const { return node_; }

 private:
  const ParamNode* node_;
  const MessageType* type_;
};

// Throws Error "file:line:column: message": for values that only the owner can judge.
[[noreturn]] void fail_at(const Position& where, const std::string& message);

}  // namespace kinet
