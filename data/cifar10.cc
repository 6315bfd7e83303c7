#include "data/cifar10.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr int kChannels = 3, kSide = 32;
constexpr int64_t kPlane = kSide * kSide;
constexpr int64_t kImage = kChannels * kPlane;
constexpr int64_t kRecord = 1 + kImage;  // bytes

class Cifar10Dataset : public Dataset {
 public:
  explicit Cifar10Dataset(const std::vector<std::string>& files) : files_(files) {
    for (const std::string& file : files) add(file);
  }

  int64_t items() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t label(int64_t index) const override { return labels_[index]; }
  void read(int64_t index, Sample& sample) const override {
    sample.channels = kChannels;
    sample.height = sample.width = kSide;
    sample.interleaved = false;
    sample.bytes = pixels_.data() + index * kImage;
    sample.floats = nullptr;
    sample.label = labels_[index];
  }
  std::string locate(int64_t index) const override {
    const auto next = std::upper_bound(first_item_.begin(), first_item_.end(), index);
    const size_t file = next - first_item_.begin() - 1;
    return fmt::format("record {} of {}", index - first_item_[file], files_[file]);
  }
  std::string describe() const override {
    return fmt::format("{} images 3x32x32 from {}", with_commas(items()), join(files_, ", "));
  }

 private:
  void add(const std::string& file) {
    const std::string bytes = read_file(file);
    const auto size = static_cast<int64_t>(bytes.size());
    KINET_CHECK(size > 0, "{}: empty file", file);
    KINET_CHECK(size % kRecord == 0,
                "{}: truncated or no CIFAR-10 file: {} bytes are no multiple of {}", file,
                with_commas(size), kRecord);
    first_item_.push_back(items());
    const auto* record = reinterpret_cast<const uint8_t*>(bytes.data());
    for (int64_t i = 0; i < size / kRecord; ++i, record += kRecord) {
      labels_.push_back(record[0]);
      for (int c = kChannels - 1; c >= 0; --c) {  // red, green, blue becomes blue, green, red
        const uint8_t* plane = record + 1 + c * kPlane;
        pixels_.insert(pixels_.end(), plane, plane + kPlane);
      }
    }
  }

  const std::vector<std::string> files_;
  std::vector<int64_t> first_item_;  // of each file
  std::vector<uint8_t> pixels_, labels_;
};

}  // namespace

std::shared_ptr<const Dataset> open_cifar10(const std::vector<std::string>& files) {
  KINET_CHECK(!files.empty(), "no CIFAR-10 file is given");
  return std::make_shared<Cifar10Dataset>(files);
}

}  // namespace kinet
