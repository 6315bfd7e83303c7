#include "data/image_list.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "data/image_loader.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr size_t kMaxReported = 10;  // faulty lines or missing files in one message
// Files looked for at opening; more would hold up the start on a slow disk. 0.2 s here.
constexpr size_t kMaxLookedFor = 100000;

// Gathers messages, a line each; throws them together.
class Findings {
 public:
  void add(const std::string& message) {
    if (count_++ < kMaxReported) text_ += (text_.empty() ? "" : "\n") + message;
  }
  void throw_if_any() const {
    if (count_ == 0) return;
    const std::string more =
        count_ > kMaxReported ? fmt::format("\n... and {} more", count_ - kMaxReported) : "";
    fail("{}{}", text_, more);
  }

 private:
  size_t count_ = 0;
  std::string text_;
};

// What is wrong with the line, or "" when `entry` was filled.
std::string parse_line(std::string_view line, ImageListEntry& entry) {
  constexpr std::string_view kBlank = " \t";
  const size_t last = line.find_last_not_of(kBlank);
  if (last == std::string_view::npos) return "blank line";
  line = line.substr(0, last + 1);
  const size_t space = line.find_last_of(kBlank);
  if (space == std::string_view::npos) {
    return fmt::format("'{}' has no label\nhint: a line is 'path label'", line);
  }
  const std::string_view label = line.substr(space + 1);
  const char* end = label.data() + label.size();
  const auto [stop, code] = std::from_chars(label.data(), end, entry.label);
  if (code != std::errc() || stop != end) {
    return fmt::format("label '{}' is not a whole number\nhint: a line is 'path label'", label);
  }
  const size_t path_end = line.find_last_not_of(kBlank, space);
  if (path_end == std::string_view::npos) return "no path before the label";
  entry.path = line.substr(0, path_end + 1);
  if (entry.path.find('\0') != std::string::npos) {
    return "the path holds a NUL byte\nhint: a list is plain text";
  }
  return "";
}

class ImageListDataset : public Dataset {
 public:
  ImageListDataset(const std::string& list, const ImageListOptions& options)
      : list_(list),
        options_(options),
        entries_(read_image_list(list)),
        paths_(list, options.root, entries_) {
    require_image_library();
    if (options.check_files) look_for_files();
  }

  int64_t items() const override { return static_cast<int64_t>(entries_.size()); }
  int64_t label(int64_t index) const override { return entries_[index].label; }
  void read(int64_t index, Sample& sample) const override {
    Image image;
    image.pixels.swap(sample.byte_storage);
    try {
      load_image(file(index), options_.mode, image);
      if (options_.height > 0) resize_image(image, options_.height, options_.width);
    } catch (const Error& error) {
      fail("{}:{}: {}", list_, entries_[index].line, error.what());
    }
    sample.set_image(std::move(image.pixels), image.channels, image.height, image.width);
    sample.label = entries_[index].label;
  }
  std::string locate(int64_t index) const override {
    return fmt::format("{}:{} ({})", list_, entries_[index].line, entries_[index].path);
  }
  std::string describe() const override {
    return fmt::format("{} images listed in {}", with_commas(items()), list_);
  }

 private:
  std::string file(int64_t index) const { return paths_.file(entries_[index]); }

  void look_for_files() const {
    Findings findings;
    for (size_t i = 0; i < std::min(entries_.size(), kMaxLookedFor); ++i) {
      struct stat status;
      const std::string path = file(static_cast<int64_t>(i));
      if (::stat(path.c_str(), &status) != 0) {
        findings.add(
            fmt::format("{}:{}: {}: {}", list_, entries_[i].line, path, std::strerror(errno)));
      } else if (!S_ISREG(status.st_mode)) {
        findings.add(
            fmt::format("{}:{}: {}: is {}", list_, entries_[i].line, path,
                        S_ISDIR(status.st_mode) ? "a folder, not a file" : "not a regular file"));
      } else if (status.st_size == 0) {
        findings.add(fmt::format("{}:{}: {}: empty file", list_, entries_[i].line, path));
      }
    }
    findings.throw_if_any();
  }

  const std::string list_;
  const ImageListOptions options_;
  const std::vector<ImageListEntry> entries_;
  const ImageListPaths paths_;
};

}  // namespace

std::vector<ImageListEntry> read_image_list(const std::string& path) {
  const std::string text = read_file(path);
  const size_t last = text.find_last_not_of(" \t\r\n");
  KINET_CHECK(last != std::string::npos, "{}: the list is empty", path);
  const std::string_view all = std::string_view(text).substr(0, last + 1);
  std::vector<ImageListEntry> entries;
  Findings findings;
  int number = 0;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    std::string_view line = all.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ImageListEntry entry;
    entry.line = ++number;
    const std::string wrong = parse_line(line, entry);
    if (!wrong.empty()) findings.add(fmt::format("{}:{}: {}", path, number, wrong));
    entries.push_back(std::move(entry));
    at = end + 1;
  }
  findings.throw_if_any();
  return entries;
}

ImageListPaths::ImageListPaths(const std::string& list, const std::string& root,
                               const std::vector<ImageListEntry>& entries) {
  namespace fs = std::filesystem;
  const std::string& first = entries.front().path;
  if (!root.empty()) {
    // Caffe joins the two as they stand; a slash is missing in neither way of writing them.
    base_ = root.ends_with('/') || first.starts_with('/') ? root : root + '/';
    return;
  }
  const fs::path folder = fs::path(list).parent_path();
  if (folder.empty()) return;
  std::error_code ignored;
  for (const ImageListEntry& entry : entries) {
    if (fs::exists(entry.path, ignored)) return;
    if (!fs::exists(folder / entry.path, ignored)) continue;
    base_ = folder.string() + '/';
    return;
  }
}

std::shared_ptr<const Dataset> open_image_list(const std::string& path,
                                               const ImageListOptions& options) {
  return std::make_shared<ImageListDataset>(path, options);
}

}  // namespace kinet
