// What the tests of the data path share: a folder that goes away, small data sets in memory and in
// files, and the message of an error.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "src/base/check.h"

namespace kinet {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kinet-data-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string str() const { return path_.string(); }
  // Writes a file, with the folders it needs, and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

// The message of the Error that `body` throws; a failed test when it throws none.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

// The bytes of an IDX file of that shape.
inline std::string idx_bytes(const std::vector<int>& sizes, const std::string& values) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (int size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 255);
  }
  return out + values;
}

inline void write_gzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, bytes.data(), bytes.size()), static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

// `items` images of h x w: every pixel of item i has the value i; label i % 10.
inline std::pair<std::string, std::string> write_counting_idx(const TemporaryFolder& folder,
                                                              int items, int h, int w) {
  std::string pixels, labels;
  for (int i = 0; i < items; ++i) {
    pixels.append(static_cast<size_t>(h) * w, static_cast<char>(i));
    labels += static_cast<char>(i % 10);
  }
  return {folder.write("images-idx3", idx_bytes({items, h, w}, pixels)),
          folder.write("labels-idx1", idx_bytes({items}, labels))};
}

// Items in memory: 1 x h x w, pixel p of item i = i + 10 p, label = i; those in `bad` cannot be
// read.
class CountingDataset : public Dataset {
 public:
  CountingDataset(int64_t items, int h, int w, std::vector<int64_t> bad = {})
      : items_(items), height_(h), width_(w), bad_(std::move(bad)) {}

  int64_t items() const override { return items_; }
  void read(int64_t index, Sample& s) const override {
    for (int64_t b : bad_) KINET_CHECK(b != index, "{}: cannot be read", locate(index));
    s.channels = 1;
    s.height = height_;
    s.width = width_;
    s.interleaved = false;
    s.bytes = nullptr;
    s.float_storage.resize(s.pixels());
    for (int64_t p = 0; p < s.pixels(); ++p)
      s.float_storage[p] = static_cast<float>(index + 10 * p);
    s.floats = s.float_storage.data();
    s.label = index;
  }
  std::string locate(int64_t index) const override { return fmt::format("item {}", index); }
  std::string describe() const override { return fmt::format("{} counted items", items_); }

 private:
  const int64_t items_;
  const int height_, width_;
  const std::vector<int64_t> bad_;
};

}  // namespace kinet
