// IDX files: plain and gzipped, and every way in which they can be wrong.
// ctest: labels=unit,core,smoke
#include "data/idx.h"
#include "src/base/files.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

TEST(Idx, PlainAndGzippedReadAlike) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 7, 3, 2);
  const std::string &images = files.first, &labels = files.second;
  std::ifstream in(images, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  write_gzip(folder / "images.gz", bytes);
  for (const std::string& path : {images, folder / "images.gz"}) {
    const auto dataset = open_idx(path, labels);
    ASSERT_EQ(dataset->items(), 7);
    Sample sample;
    dataset->read(5, sample);
    EXPECT_EQ(sample.size_str(), "1x3x2");
    EXPECT_EQ(sample.label, 5);
    for (int p = 0; p < 6; ++p) EXPECT_EQ(sample.bytes[p], 5);
    EXPECT_CONTAINS(dataset->describe(), "7 images 1x3x2");
    EXPECT_CONTAINS(dataset->locate(5), "item 5 of " + path);
  }
}

TEST(Idx, FourAxesAreChannels) {
  const TemporaryFolder folder;
  const std::string images = folder.write("i", idx_bytes({2, 3, 1, 2}, std::string(12, 'x')));
  const auto dataset = open_idx(images, folder.write("l", idx_bytes({2}, "ab")));
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.size_str(), "3x1x2");
}

// Every length short of the whole file is reported, never read past.
TEST(Idx, TruncatedAnywhere) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 4, 2, 2);
  const std::string &images = files.first, &labels = files.second;
  const auto size = std::filesystem::file_size(images);
  for (uintmax_t length = 0; length < size; ++length) {
    std::filesystem::resize_file(images, length);
    const std::string message = message_of([&] { open_idx(images, labels); });
    EXPECT_CONTAINS(message, images);
    if (length >= 16) {
      EXPECT_CONTAINS(message, fmt::format("promises 16 bytes, found {}", length - 16));
    }
    ASSERT_EQ(write_counting_idx(folder, 4, 2, 2).first, images);
  }
}

TEST(Idx, TruncatedGzip) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 4, 2, 2);
  const std::string& labels = files.second;
  std::string noise;
  for (unsigned i = 0, x = 1; i < 4000; ++i)
    noise += static_cast<char>((x = x * 1103515245 + 12345) >> 16);
  write_gzip(folder / "i.gz", idx_bytes({4, 10, 100}, noise));
  std::filesystem::resize_file(folder / "i.gz", 2000);
  const std::string message = message_of([&] { open_idx(folder / "i.gz", labels); });
  EXPECT_CONTAINS(message, "promises 4,000 bytes, found");
  EXPECT_CONTAINS(message, "the compressed file ends early");
}

// Whatever bit is wrong, the damage is named first, not what it happens to lead to.
TEST(Idx, DamagedGzip) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 4, 2, 2);
  const std::string& labels = files.second;
  write_gzip(folder / "whole.gz", idx_bytes({4, 2, 2}, "0123456789abcdef"));
  const std::string whole = read_file(folder / "whole.gz");
  const std::string path = folder / "i.gz";
  int damaged = 0;
  for (size_t byte = 10; byte < whole.size(); ++byte) {  // after gzip's own header
    std::string wrong = whole;
    wrong[byte] ^= 0x10;
    folder.write("i.gz", wrong);
    std::string message;  // empty: a bit that means nothing
    try {
      open_idx(path, labels);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_EQ(message.find(path, 1), std::string::npos) << message;  // named once
    damaged += message.starts_with(path + ": the compressed file is damaged: ");
  }
  EXPECT_GT(damaged, static_cast<int>(whole.size()) / 2);
}

TEST(Idx, WrongFiles) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 4, 2, 2);
  const std::string &images = files.first, &labels = files.second;
  EXPECT_CONTAINS(message_of([&] { open_idx(folder / "none", labels); }), "No such file");
  EXPECT_CONTAINS(message_of([&] { open_idx(folder.str(), labels); }), "is a folder");
  EXPECT_CONTAINS(message_of([&] { open_idx(labels, images); }), "is it the label file?");
  EXPECT_CONTAINS(message_of([&] { open_idx(images, images); }), "is it the image file?");
  const std::string text = folder.write("text", "hello, this is no IDX file");
  EXPECT_CONTAINS(message_of([&] { open_idx(text, labels); }), "not an IDX file of bytes");
  const std::string longer = folder.write("longer", idx_bytes({4, 2, 2}, std::string(17, 'x')));
  EXPECT_CONTAINS(message_of([&] { open_idx(longer, labels); }), "longer than the 16 bytes");
  const std::string empty = folder.write("empty", idx_bytes({0, 2, 2}, ""));
  EXPECT_CONTAINS(message_of([&] { open_idx(empty, labels); }), "holds no items");
  const std::string huge = folder.write("huge", idx_bytes({-1, -1, -1, -1}, ""));
  EXPECT_CONTAINS(message_of([&] { open_idx(huge, labels); }), "impossible sizes");
}

TEST(Idx, CountsMustAgree) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 4, 2, 2);
  const std::string& images = files.first;
  const std::string five = folder.write("five", idx_bytes({5}, "abcde"));
  EXPECT_CONTAINS(message_of([&] { open_idx(images, five); }), "holds 4 images, but");
}

TEST(Labels, FirstBadItemIsNamed) {
  const TemporaryFolder folder;
  const std::string images = folder.write("i", idx_bytes({3, 1, 1}, "xyz"));
  const std::string labels = folder.write("l", idx_bytes({3}, {'\x00', '\x09', '\x0a'}));
  const auto dataset = open_idx(images, labels);
  check_labels(*dataset, 11);
  const std::string message = message_of([&] { check_labels(*dataset, 10); });
  EXPECT_CONTAINS(message, "item 2 of " + images);
  EXPECT_CONTAINS(message, "label 10 is not in the range 0 to 9 of the 10 classes");
  EXPECT_CONTAINS(message_of([&] { check_labels(*dataset, 5); }), "(1 more items like it)");
}

}  // namespace
}  // namespace kinet
