// Text made from trees reads back to the same trees, and no bytes crash the parser (fuzz replay:
// deterministic mutations, so that a failure names its seed).
// ctest: labels=unit,core,smoke
#include <gtest/gtest.h>

#include "src/base/rng.h"
#include "src/prototxt/escape.h"
#include "tests/prototxt_helpers.h"

namespace kinet {
namespace {

using namespace prototxt_test;  // NOLINT: a test helper
using Kind = ParamNode::Kind;

TEST(PrototxtText, IsIndentedAndParsesBack) {
  ParamNode root;
  root.add_string("name", "a \"b\"\n");
  ParamNode& layer = root.add_message("layer");
  layer.add_scalar("phase", "TRAIN");
  layer.add_message("param").add_scalar("lr_mult", "-0.5");
  EXPECT_EQ(root.to_text(),
            "name: \"a \\\"b\\\"\\n\"\nlayer {\n  phase: TRAIN\n  param {\n    lr_mult: -0.5\n"
            "  }\n}\n");
  EXPECT_EQ(root.children[1].children[1].to_text(1), "  param {\n    lr_mult: -0.5\n  }\n");
  expect_round_trip(root);
}

TEST(PrototxtText, ScalarsOfProgramsAreNumbersOrIdentifiers) {
  ParamNode root;
  for (const char* number : {"1", "-1", ".5", "0x10", "-inf", "1e-05"}) {
    EXPECT_EQ(root.add_scalar("a", number).kind, Kind::kNumber) << number;
  }
  for (const char* identifier : {"true", "inf", "nan", "MAX"}) {
    EXPECT_EQ(root.add_scalar("a", identifier).kind, Kind::kIdentifier) << identifier;
  }
  expect_round_trip(root);
  root.erase("a");
  EXPECT_TRUE(root.children.empty());
}

TEST(PrototxtText, EveryByteSurvives) {
  ParamNode root;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  root.add_string("a", bytes + "7");
  root.add_string("a", "é中😀\xC0\x80\xED\xA0\x80");
  for (int i = 0; i < 256; ++i) root.add_string("b", std::string(1, static_cast<char>(i)) + "1");
  const std::string text = root.to_text();
  EXPECT_NE(text.find("é中😀\\300"), std::string::npos) << "valid UTF-8 stays readable";
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<uint8_t>(c) >= 0x20);
  expect_round_trip(root);
}

// A random tree: all kinds, awkward strings, up to six levels.
void grow(ParamNode& node, Rng& rng, int depth) {
  static const char* const kScalars[] = {"1",   "-7",  "0x1F", "017", "1.5f", "-1e-3",
                                         "inf", "nan", "-inf", "MAX", "true", "_x9"};
  static const char* const kNames[] = {"a", "layer", "_b1", "inf", "true", "X"};
  const auto count = rng.below(5);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = kNames[rng.below(std::size(kNames))];
    const uint64_t kind = rng.below(depth > 0 ? 3 : 2);
    if (kind == 0) {
      node.add_scalar(name, kScalars[rng.below(std::size(kScalars))]);
    } else if (kind == 1) {
      std::string text;
      for (uint64_t n = rng.below(12); n > 0; --n) text += static_cast<char>(rng.below(256));
      node.add_string(name, text);
    } else {
      grow(node.add_message(name), rng, depth - 1);
    }
  }
}

TEST(PrototxtText, RandomTreesParseBackToThemselves) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    ParamNode root;
    grow(root, rng, 6);
    expect_round_trip(root);
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

std::string mutated(std::string text, Rng& rng) {
  static constexpr std::string_view kPieces[] = {
      "{",  "}",    "<",   ">",  "[",  "]",   ":",  ",",  "\"", "'",
      "\\", "#",    "-",   "\n", "a:", "\\u", "0x", "1e", "\r", "\xEF\xBB\xBF",
      "\\", "\xC3", "m {", "[{", "..", "\t"};
  for (uint64_t n = 1 + rng.below(6); n > 0; --n) {
    const size_t at = rng.below(text.size() + 1);
    const size_t length = std::min<size_t>(rng.below(8), text.size() - at);
    switch (rng.below(4)) {
      case 0:  // a byte changes
        if (at < text.size()) text[at] = static_cast<char>(rng.below(256));
        break;
      case 1:  // a piece is lost
        text.erase(at, length);
        break;
      case 2:  // a piece is repeated elsewhere
        text.insert(rng.below(text.size() + 1), text.substr(at, length));
        break;
      default:
        text.insert(at, kPieces[rng.below(std::size(kPieces))]);
    }
  }
  return text;
}

// No crash whatever the bytes; what is accepted round-trips; what is refused has a place.
void try_text(const std::string& text, int* accepted) {
  Diagnostics diagnostics;
  const ParamNode root = parse_prototxt(text, "f", diagnostics);
  if (diagnostics.ok()) {
    ++*accepted;
    expect_round_trip(root);
  }
  EXPECT_LE(diagnostics.errors().size(), 51u);
  for (const std::string& error : diagnostics.errors()) EXPECT_EQ(error.substr(0, 2), "f:");
}

TEST(PrototxtFuzz, MutatedNets) {
  int accepted = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed, RngPurpose::kTest, 1);
    const std::string text = mutated(std::string(kLenet), rng);
    try_text(text, &accepted);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << quoted(text);
  }
  EXPECT_GT(accepted, 400) << "the mutations should leave some text valid";
  EXPECT_LT(accepted, 3600);
}

TEST(PrototxtFuzz, RandomBytesAndTokens) {
  static constexpr std::string_view kTokens[] = {"a",   ":",  "{", "}",  "<",     ">", "[",
                                                 "]",   ",",  ";", "-",  "\"s\"", "1", "'t'",
                                                 "inf", "\n", "0", "b ", "1.5f ", "x"};
  int accepted = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed, RngPurpose::kTest, 2);
    std::string bytes, tokens;
    for (uint64_t n = rng.below(200); n > 0; --n) bytes += static_cast<char>(rng.below(256));
    for (uint64_t n = rng.below(40); n > 0; --n) tokens += kTokens[rng.below(std::size(kTokens))];
    try_text(bytes, &accepted);
    try_text(tokens, &accepted);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << quoted(tokens);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace kinet
