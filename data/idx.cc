#include "data/idx.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr int kUnsignedByte = 8;
constexpr int64_t kMaxBytes = int64_t{1} << 40;  // a header that asks for more is garbage

// A plain or gzipped file as a stream of bytes.
class GzipReader {
 public:
  explicit GzipReader(const std::string& path) : path_(path) {
    require_regular_file(path);
    file_ = gzopen(path.c_str(), "rb");
    KINET_CHECK(file_ != nullptr, "{}: cannot be read: {}", path, std::strerror(errno));
    gzbuffer(file_, 1 << 18);
  }
  ~GzipReader() { gzclose(file_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Bytes read, fewer than asked only at the end of the file.
  int64_t read(uint8_t* out, int64_t size) {
    int64_t done = 0;
    while (done < size) {
      const auto part = static_cast<unsigned>(std::min<int64_t>(size - done, 1 << 26));
      const int n = gzread(file_, out + done, part);
      if (n <= 0) break;
      done += n;
    }
    return done;
  }

  // " (the compressed file ends early)" when that is why reading stopped, or "" at a regular end.
  // Throws what is worse than an early end: damage, or a disk that cannot be read.
  std::string trouble() {
    int code = Z_OK;
    std::string text = gzerror(file_, &code);
    if (code == Z_OK || code == Z_STREAM_END) return "";
    if (code == Z_BUF_ERROR) return " (the compressed file ends early)";
    if (text.starts_with(path_ + ": ")) text.erase(0, path_.size() + 2);
    fail("{}: {}: {}", path_, code == Z_ERRNO ? "cannot be read" : "the compressed file is damaged",
         text);
  }

 private:
  const std::string path_;
  gzFile file_ = nullptr;
};

uint32_t big_endian(const uint8_t* b) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
}

std::vector<int64_t> read_header(GzipReader& in, const std::string& path) {
  uint8_t head[4] = {};
  const int64_t found = in.read(head, 4);
  KINET_CHECK(found == 4 && head[0] == 0 && head[1] == 0 && head[2] == kUnsignedByte &&
                  head[3] >= 1 && head[3] <= 4,
              "{}: not an IDX file of bytes: begins with {:02x}{:02x}{:02x}{:02x}{}, expected "
              "000008 and 1 to 4 axes",
              path, head[0], head[1], head[2], head[3], in.trouble());
  std::vector<int64_t> sizes;
  int64_t bytes = 1;
  for (int axis = 0; axis < head[3]; ++axis) {
    uint8_t word[4];
    KINET_CHECK(in.read(word, 4) == 4, "{}: truncated in its header{}", path, in.trouble());
    sizes.push_back(big_endian(word));
    KINET_CHECK(sizes.back() > 0, "{}: holds no items (axis {} has size 0)", path, axis);
    KINET_CHECK(sizes.back() <= kMaxBytes / bytes, "{}: damaged header (impossible sizes)", path);
    bytes *= sizes.back();
  }
  return sizes;
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(const std::string& images, const std::string& labels) : path_(images) {
    IdxFile image_file = read_idx(images);
    const auto& sizes = image_file.sizes;
    KINET_CHECK(sizes.size() >= 3, "{}: has {} axes, but images have 3 or 4{}", images,
                sizes.size(), sizes.size() == 1 ? "; is it the label file?" : "");
    const bool with_channels = sizes.size() == 4;
    items_ = sizes[0];
    channels_ = with_channels ? static_cast<int>(sizes[1]) : 1;
    height_ = static_cast<int>(sizes[sizes.size() - 2]);
    width_ = static_cast<int>(sizes[sizes.size() - 1]);
    IdxFile label_file = read_idx(labels);
    KINET_CHECK(label_file.sizes.size() == 1, "{}: has {} axes, but labels have 1{}", labels,
                label_file.sizes.size(),
                label_file.sizes.size() >= 3 ? "; is it the image file?" : "");
    KINET_CHECK(label_file.sizes[0] == items_, "{} holds {} images, but {} holds {} labels", images,
                items_, labels, label_file.sizes[0]);
    pixels_ = std::move(image_file.values);
    labels_ = std::move(label_file.values);
  }

  int64_t items() const override { return items_; }
  int64_t label(int64_t index) const override { return labels_[index]; }
  void read(int64_t index, Sample& sample) const override {
    sample.channels = channels_;
    sample.height = height_;
    sample.width = width_;
    sample.interleaved = false;
    sample.bytes = pixels_.data() + index * sample.pixels();
    sample.floats = nullptr;
    sample.label = labels_[index];
  }
  std::string locate(int64_t index) const override {
    return fmt::format("item {} of {}", index, path_);
  }
  std::string describe() const override {
    return fmt::format("{} images {}x{}x{} from {}", with_commas(items_), channels_, height_,
                       width_, path_);
  }

 private:
  const std::string path_;
  int64_t items_ = 0;
  int channels_ = 0, height_ = 0, width_ = 0;
  std::vector<uint8_t> pixels_, labels_;
};

}  // namespace

IdxFile read_idx(const std::string& path) {
  GzipReader in(path);
  IdxFile file;
  file.sizes = read_header(in, path);
  int64_t expected = 1;
  for (int64_t size : file.sizes) expected *= size;
  // Grown as bytes arrive, so that a damaged header cannot ask for all the memory at once.
  constexpr int64_t kStep = 1 << 26;
  int64_t found = 0;
  while (found < expected) {
    const int64_t part = std::min(kStep, expected - found);
    file.values.resize(found + part);
    const int64_t n = in.read(file.values.data() + found, part);
    found += n;
    if (n < part) break;
  }
  KINET_CHECK(found == expected, "{}: truncated: its header promises {} bytes, found {}{}", path,
              with_commas(expected), with_commas(found), in.trouble());
  uint8_t extra;
  const bool too_long = in.read(&extra, 1) != 0;
  KINET_CHECK(!too_long, "{}: longer than the {} bytes its header promises", path,
              with_commas(expected));
  KINET_CHECK(in.trouble().empty(), "{}: damaged at its end{}", path, in.trouble());
  return file;
}

std::shared_ptr<const Dataset> open_idx(const std::string& images, const std::string& labels) {
  return std::make_shared<IdxDataset>(images, labels);
}

}  // namespace kinet
