// Syntax errors of prototxt files: each message, one for each faulty place, all in one run.
// ctest: labels=unit,core,smoke
#include <gtest/gtest.h>

#include <ostream>

#include "src/base/check.h"
#include "src/prototxt/escape.h"
#include "tests/prototxt_helpers.h"

namespace kinet {
namespace {

using namespace prototxt_test;  // NOLINT: a test helper
struct Faulty {
  const char* text;
  Lines errors;
};

void PrintTo(const Faulty& faulty, std::ostream* out) { *out << quoted(faulty.text); }

class PrototxtErrors : public testing::TestWithParam<Faulty> {};

TEST_P(PrototxtErrors, OneMessageForEachFaultyPlace) {
  EXPECT_EQ(errors_of(GetParam().text), GetParam().errors) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    All, PrototxtErrors,
    testing::Values(
        Faulty{"a 1\nb: 2", {"f:1:3: ':' is missing between 'a' and its value"}},
        Faulty{"a: \nb: 2", {"f:1:1: field 'a' has no value"}},
        Faulty{"m {\n a:\n}\nb: 1", {"f:2:2: field 'a' has no value"}},
        Faulty{"m\nb: 1", {"f:1:1: field 'm' has no value"}},
        Faulty{"a = 3\nb: 1", {"f:1:3: unexpected '='"}},
        Faulty{"a: 5 5 b: 1", {"f:1:6: the name of a field was expected, not '5'"}},
        Faulty{"\"a\": 5", {"f:1:1: the name of a field was expected, not \"a\""}},
        Faulty{"[x.y]: 5", {"f:1:1: the name of a field was expected, not '['"}},
        Faulty{"a: 1;;", {"f:1:6: the name of a field was expected, not ';'"}},
        Faulty{"a: [1, 2\nb: 3", {"f:1:4: ',' or ']' is missing in the list of 'a'"}},
        Faulty{"a: [1 2] b: 3", {"f:1:7: ',' or ']' is missing in the list of 'a'"}},
        Faulty{"a: [1,] b: 3", {"f:1:1: field 'a' has no value"}},
        Faulty{"a: [[1], 2] b: 3", {"f:1:1: field 'a' has no value"}},
        Faulty{"a: 09", {"f:1:4: '09' is not a number"}},
        Faulty{"a: 1.2.3 b: 1", {"f:1:4: '1.2.3' is not a number"}},
        Faulty{"a: 5x5", {"f:1:4: '5x5' is not a number"}},
        Faulty{"a: -x", {"f:1:5: a number was expected after '-', not 'x'"}},
        Faulty{"a: +1", {"f:1:4: unexpected '+'"}},
        Faulty{"a: \"x\nb: 1", {"f:1:4: this string is not closed on its line"}},
        Faulty{"m { a: 'x }\nb: 1", {"f:1:8: this string is not closed on its line"}},
        Faulty{R"(a: "C:\data")",
               {"f:1:7: unknown escape in a string; a backslash itself is written \\\\"}},
        Faulty{R"(a: "\400")", {"f:1:6: an octal escape goes up to \\377"}},
        Faulty{R"(a: "\u12")", {"f:1:6: this escape names no Unicode character"}},
        Faulty{R"(a: "\ud83d")", {"f:1:6: this escape names no Unicode character"}},
        Faulty{R"(a: "\U00110000")", {"f:1:6: this escape names no Unicode character"}},
        Faulty{"a: 1 // x\nb: 1", {"f:1:6: comments begin with '#', not with '/'"}},
        Faulty{"a: “x”", {"f:1:4: unexpected '“' (strings are written in plain quotes: \" or ')"}},
        Faulty{"a: \x01\n", {"f:1:4: unexpected byte 0x01"}},
        Faulty{"caf\xE9: 1", {"f:1:4: unexpected byte 0xE9"}},
        Faulty{"a: 1 }\nb: 1", {"f:1:6: this '}' closes nothing"}},
        Faulty{"m { a: 1\nb: 2", {"f:1:3: this '{' of 'm' is never closed"}},
        Faulty{"m { n { a: 1 }\nb { c: 2 }", {"f:1:3: this '{' of 'm' is never closed"}},
        Faulty{"m { a: 1 >\nb: 2", {"f:1:10: '}' expected, since line 1 opens with '{'; not '>'"}},
        Faulty{"m <\n a: 1 }", {"f:2:7: '>' expected, since line 1 opens with '<'; not '}'"}}));

TEST(PrototxtParser, AllErrorsOfAFileInOneRun) {
  EXPECT_EQ(
      errors_of("layer {\n  name \"a\"\n  type: \n  bottom: \"x\n}\nlayer {\n  num: 1x\n}\n}\n"),
      (Lines{"f:2:8: ':' is missing between 'name' and its value",
             "f:3:3: field 'type' has no value", "f:4:11: this string is not closed on its line",
             "f:7:8: '1x' is not a number", "f:9:1: this '}' closes nothing"}));
}

TEST(PrototxtParser, FieldsAfterAnErrorAreStillRead) {
  Diagnostics diagnostics;
  const ParamNode root = parse_prototxt("a: ? 3 { x: 1 } b: 2\nm { 5 c: 4 }", "f", diagnostics);
  EXPECT_EQ(diagnostics.errors().size(), 2u);
  ASSERT_NE(root.find("b"), nullptr);
  EXPECT_EQ(root.find("m")->find("c")->text, "4");
}

TEST(PrototxtParser, StopsAfterFiftyErrors) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "a: 5x\n";
  const Lines errors = errors_of(text);
  ASSERT_EQ(errors.size(), 51u);
  EXPECT_EQ(errors[49], "f:50:4: '5x' is not a number");
  EXPECT_EQ(errors[50], "f:50:4: too many errors: the rest of the file was not read");
}

TEST(PrototxtParser, NestingIsLimited) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "m {";
    return text + std::string(static_cast<size_t>(depth), '}');
  };
  EXPECT_EQ(errors_of(nested(100)), Lines());
  EXPECT_EQ(errors_of(nested(101)), Lines{"f:1:303: messages are nested more than 100 deep"});
  EXPECT_EQ(errors_of(nested(200000)).size(), 1u);
  EXPECT_FALSE(errors_of(std::string(1000000, '{')).empty());
  EXPECT_FALSE(errors_of("a: " + std::string(1000000, '[')).empty());
  EXPECT_FALSE(errors_of(std::string(1000000, '}')).empty());
}

TEST(PrototxtParser, FilesThatAreNoText) {
  EXPECT_EQ(errors_of(std::string("\x0a\x00\x12{", 4)),
            Lines{"f:1:1: is not text: a prototxt file was expected here"});
  EXPECT_EQ(errors_of("\xFF\xFEn"), Lines{"f:1:1: is UTF-16 text; save it as UTF-8"});
}

TEST(Diagnostics, GathersErrorsAndNotes) {
  Diagnostics diagnostics;
  diagnostics.throw_if_any();
  const Position where{std::make_shared<const std::string>("x.prototxt"), 3, 4};
  const Position other{std::make_shared<const std::string>("y.prototxt"), 1, 1};
  diagnostics.note_once("engine", where, "first");
  diagnostics.note_once("engine", where, "second");
  diagnostics.note_once("engine", other, "third");
  EXPECT_TRUE(diagnostics.ok());
  EXPECT_EQ(diagnostics.notes(), (Lines{"x.prototxt:3:4: first", "y.prototxt:1:1: third"}));
  diagnostics.error(where, "one");
  diagnostics.error(Position(), "made by the program");
  diagnostics.error({where.file, 0, 0}, "of the whole file");
  EXPECT_FALSE(diagnostics.ok());
  try {
    diagnostics.throw_if_any();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "x.prototxt:3:4: one\nmade by the program\nx.prototxt: of the whole file");
  }
}

}  // namespace
}  // namespace kinet
