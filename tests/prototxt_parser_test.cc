// The prototxt parser: what is read, from text and from files, and the meaning of numbers.
// ctest: labels=unit,core,smoke
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/prototxt/value.h"
#include "tests/prototxt_helpers.h"

namespace kinet {
namespace {

using namespace prototxt_test;  // NOLINT: a test helper
namespace fs = std::filesystem;
using Kind = ParamNode::Kind;

std::string text_of(std::string_view text, std::string_view field) {
  const ParamNode root = parse(text);
  const ParamNode* node = root.find(field);
  EXPECT_NE(node, nullptr) << text;
  return node ? node->text : "";
}

TEST(PrototxtParser, ReadsANetInFileOrder) {
  const ParamNode root = parse(kLenet);
  ASSERT_EQ(root.children.size(), 3u);
  EXPECT_EQ(root.name, "");
  EXPECT_TRUE(root.is_message());
  EXPECT_EQ(root.children[0].text, "LeNet");
  const ParamNode& data = root.children[1];
  EXPECT_EQ(data.find_all("top").size(), 2u);
  EXPECT_EQ(data.find("top")->text, "label") << "find gives the last one";
  EXPECT_EQ(data.find("include")->find("phase")->kind, Kind::kIdentifier);
  EXPECT_EQ(data.find("data_param")->find("batch_size")->text, "64");
  EXPECT_EQ(data.find("data_param")->find("backend")->text, "LMDB");
  const ParamNode* convolution = root.children[2].find("convolution_param");
  ASSERT_EQ(convolution->find_all("kernel_size").size(), 2u);
  EXPECT_EQ(convolution->find("weight_filler")->find("type")->text, "xavier");
  EXPECT_EQ(root.children[2].find("bottom")->text, "data");
  EXPECT_EQ(root.find("none"), nullptr);
}

TEST(PrototxtParser, PositionsPointAtNameAndValue) {
  const ParamNode root = parse("a: 1\n  bc:\n    { d: [7,\n8] }");
  const ParamNode& bc = root.children[1];
  EXPECT_EQ(root.children[0].where.str(), "f:1:1");
  EXPECT_EQ(root.children[0].value_where.str(), "f:1:4");
  EXPECT_EQ(bc.where.str(), "f:2:3");
  EXPECT_EQ(bc.value_where.str(), "f:3:5");
  EXPECT_EQ(bc.children[0].where.str(), "f:3:7");
  EXPECT_EQ(bc.children[0].value_where.str(), "f:3:11");
  EXPECT_EQ(bc.children[1].where.str(), "f:3:7");
  EXPECT_EQ(bc.children[1].value_where.str(), "f:4:1");
}

TEST(PrototxtParser, ColumnsCountCharactersAndLinesEndInAnyWay) {
  const ParamNode root = parse("a: \"äöü\" b: 1\r\nc: 2\rd: 3 # x\re: 4\n\nf: 5");
  EXPECT_EQ(root.find("b")->where.str(), "f:1:10");
  EXPECT_EQ(root.find("c")->where.str(), "f:2:1");
  EXPECT_EQ(root.find("d")->where.str(), "f:3:1");
  EXPECT_EQ(root.find("e")->where.str(), "f:4:1") << "a lone CR ends a comment";
  EXPECT_EQ(root.find("f")->where.str(), "f:6:1");
}

TEST(PrototxtParser, ByteOrderMarkIsLeftOut) {
  const ParamNode root = parse("\xEF\xBB\xBFname: \"x\"");
  EXPECT_EQ(root.children.at(0).name, "name");
  EXPECT_EQ(root.children.at(0).where.column, 1);
}

TEST(PrototxtParser, CommentsAndSeparators) {
  expect_same_tree(parse("a: 1 # } \" {\n#\nb: 2"), parse("a:1,b:2;"));
  expect_same_tree(parse("m { a: 1; b: 2, }, n <>; o: {}"), parse("m { a: 1 b: 2 } n {} o {}"));
  EXPECT_EQ(text_of("a: \"# no comment\"", "a"), "# no comment");
}

TEST(PrototxtParser, ListsOfScalarsAndMessages) {
  expect_same_tree(parse("a: [1, -2, 'x' \"y\", Z]"), parse("a: 1 a: -2 a: \"xy\" a: Z"));
  expect_same_tree(parse("m [ { a: 1 }, <b: 2> ] n: [{}]"), parse("m { a: 1 } m { b: 2 } n { }"));
  EXPECT_TRUE(parse("a: [] m []").children.empty());
}

TEST(PrototxtParser, EmptyTextIsAnEmptyMessage) {
  for (const char* text : {"", " \n\t", "# only a comment", "\xEF\xBB\xBF"}) {
    EXPECT_TRUE(parse(text).children.empty()) << text;
  }
}

TEST(PrototxtParser, AdjacentStringsAreJoined) {
  EXPECT_EQ(text_of("a: \"x\" 'y'\n  # between\n \"z\" b: 1", "a"), "xyz");
}

TEST(PrototxtParser, Escapes) {
  EXPECT_EQ(text_of(R"(a: "\n\t\r\\\"\'\?\a\b\f\v")", "a"), "\n\t\r\\\"'?\a\b\f\v");
  EXPECT_EQ(text_of(R"(a: 'say "hi"')", "a"), "say \"hi\"");
  EXPECT_EQ(text_of(R"(a: "it's")", "a"), "it's");
  EXPECT_EQ(text_of(R"(a: "\101\60\0601\377")", "a"), "A001\xFF");
  EXPECT_EQ(text_of(R"(a: "\x41\x4Az\X6")", "a"), "AJz\x06");
  EXPECT_EQ(text_of(R"(a: "\u00e9\U0001F600\ud83d\ude00")", "a"), "é😀😀");
  EXPECT_EQ(text_of(R"(a: "\0")", "a"), std::string(1, '\0'));
  EXPECT_EQ(text_of(R"(a: "C:\\data\\x")", "a"), "C:\\data\\x");
}

TEST(PrototxtParser, BytesInStringsStayAsTheyAre) {
  EXPECT_EQ(text_of("a: \"caf\xE9\"", "a"), "caf\xE9") << "Latin-1";
  EXPECT_EQ(text_of("a: \"caf\xC3\xA9 \xE4\xB8\xAD\"", "a"), "café 中");
}

TEST(PrototxtParser, NumbersKeepTheirText) {
  for (const char* number : {"0", "7", "0x1F", "017", "1.5", "1.5f", "1F", ".5", "5.", "1e-3",
                             "1E+5", "2.5e10f", "99999999999999999999", "1e999"}) {
    const ParamNode plain = parse(fmt::format("a: {}", number));
    EXPECT_EQ(plain.children.at(0).kind, Kind::kNumber) << number;
    EXPECT_EQ(plain.children.at(0).text, number);
    EXPECT_EQ(text_of(fmt::format("a: -{}", number), "a"), fmt::format("-{}", number));
  }
  EXPECT_EQ(text_of("a: - 5", "a"), "-5");
  EXPECT_EQ(parse("a: -inf").children.at(0).kind, Kind::kNumber);
  EXPECT_EQ(text_of("a: -Infinity", "a"), "-Infinity");
  EXPECT_EQ(parse("a: inf").children.at(0).kind, Kind::kIdentifier);
  EXPECT_EQ(text_of("a: nan", "a"), "nan");
}

TEST(PrototxtParser, MeaningOfNumbers) {
  int64_t n = 0;
  EXPECT_EQ(parse_integer("0x1f", n), IntegerText::kInteger);
  EXPECT_EQ(n, 31);
  EXPECT_EQ(parse_integer("-017", n), IntegerText::kInteger);
  EXPECT_EQ(n, -15);
  EXPECT_EQ(parse_integer("9223372036854775807", n), IntegerText::kInteger);
  EXPECT_EQ(n, INT64_MAX);
  EXPECT_EQ(parse_integer("-9223372036854775808", n), IntegerText::kInteger);
  EXPECT_EQ(n, INT64_MIN);
  EXPECT_EQ(parse_integer("9223372036854775808", n), IntegerText::kTooLarge);
  for (const char* text : {"", "-", "1.0", "1e3", "09", "0x", "0xg", "--1", "1 ", "+1", "abc"}) {
    EXPECT_EQ(parse_integer(text, n), IntegerText::kNotInteger) << text;
  }
  EXPECT_EQ(parse_real("1.5f"), 1.5);
  EXPECT_EQ(parse_real("-.5"), -0.5);
  EXPECT_EQ(parse_real("5."), 5.0);
  EXPECT_EQ(parse_real("1e-3"), 1e-3);
  EXPECT_EQ(parse_real("2.5E+2F"), 250.0);
  EXPECT_EQ(parse_real("0x10"), 16.0);
  EXPECT_EQ(parse_real("-Infinity"), -INFINITY);
  EXPECT_EQ(parse_real("1e999"), INFINITY);
  EXPECT_EQ(parse_real("1e-999"), 0.0);
  EXPECT_EQ(parse_real("99999999999999999999"), 1e20);
  EXPECT_TRUE(std::isnan(parse_real("nan").value()));
  for (const char* text : {"", "-", "f", ".", "1.2.3", "1e", "e5", "1..", "--1", "infx", "0x1.8"}) {
    EXPECT_FALSE(parse_real(text)) << text;
  }
}

class PrototxtFile : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view text) {
    std::string path = (folder_ / name).string();
    write_file_atomic(path, text);
    return path;
  }
  std::string error_of(const std::string& path) {
    try {
      parse_prototxt_file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 2);
      return error.what();
    }
    return "";
  }

  fs::path folder_ = fs::canonical(testing::TempDir()) / fmt::format("prototxt_{}", ::getpid());
};

TEST_F(PrototxtFile, ReadsAFile) {
  const std::string path = write("net.prototxt", kLenet);
  const ParamNode root = parse_prototxt_file(path);
  expect_same_tree(root, parse(kLenet));
  EXPECT_EQ(root.children[0].where.str(), path + ":2:1");
}

TEST_F(PrototxtFile, EveryErrorIsInTheMessage) {
  const std::string path = write("net.prototxt", "a 1\nb: 2\nc:\n");
  EXPECT_EQ(error_of(path), path + ":1:3: ':' is missing between 'a' and its value\n" + path +
                                ":3:1: field 'c' has no value");
}

TEST_F(PrototxtFile, MissingFolderEmpty) {
  const std::string missing = (folder_ / "none.prototxt").string();
  EXPECT_EQ(error_of(missing), missing + ": cannot be read: No such file or directory");
  const std::string too_long(5000, 'x');
  EXPECT_EQ(error_of(too_long), too_long + ": cannot be read: File name too long");
  EXPECT_EQ(error_of(folder_.string()), folder_.string() + ": is a folder, not a file");
  for (const char* text : {"", "\n", "# comment\n"}) {
    const std::string path = write("empty.prototxt", text);
    EXPECT_EQ(error_of(path), path + ": is empty: it has no field");
  }
}

TEST_F(PrototxtFile, PathsAreLookedForBesideTheFileAndHere) {
  const std::string file = write("net.prototxt", "source: \"list.txt\"");
  const std::string list = write("list.txt", "x");
  const ParamNode source = parse_prototxt_file(file).children[0];
  const Position where = source.value_where;
  EXPECT_EQ(resolve_path(source.text, where), list) << "beside the file";
  EXPECT_EQ(resolve_path(list, where), list) << "absolute";
  EXPECT_EQ(resolve_path("none.txt", where), "none.txt") << "nowhere";
  EXPECT_EQ(resolve_path("", where), "");
  EXPECT_EQ(resolve_path("none.txt", Position()), "none.txt");
  const fs::path here = fs::current_path();
  EXPECT_EQ(describe_path("none.txt", where),
            fmt::format("'none.txt' (looked for at {} and {})", (folder_ / "none.txt").string(),
                        (here / "none.txt").string()));
  EXPECT_EQ(describe_path("none.txt", Position()),
            fmt::format("'none.txt' (looked for at {})", (here / "none.txt").string()));
  EXPECT_EQ(describe_path("/none.txt", where), "'/none.txt'");
  fs::create_directories(folder_ / "other");
  write("other/list.txt", "y");
  fs::current_path(folder_ / "other");
  EXPECT_EQ(resolve_path("list.txt", where), list) << "the folder of the file comes first";
  fs::current_path(folder_);
  EXPECT_EQ(describe_path("./none.txt", where),
            fmt::format("'./none.txt' (looked for at {})", (folder_ / "none.txt").string()))
      << "both places are the same";
  fs::current_path(here);
}

}  // namespace
}  // namespace kinet
