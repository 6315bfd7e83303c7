#include "data/dataset.h"

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {

std::string Sample::size_str() const { return fmt::format("{}x{}x{}", channels, height, width); }

void Sample::set_image(std::vector<uint8_t> image, int c, int h, int w) {
  channels = c;
  height = h;
  width = w;
  interleaved = true;
  byte_storage = std::move(image);
  bytes = byte_storage.data();
  floats = nullptr;
}

int64_t Dataset::label(int64_t index) const {
  Sample sample;
  read(index, sample);
  return sample.label;
}

void check_labels(const Dataset& dataset, int64_t classes) {
  int64_t bad = 0, first = -1, first_label = 0;
  for (int64_t i = 0; i < dataset.items(); ++i) {
    const int64_t label = dataset.label(i);
    if (label >= 0 && label < classes) continue;
    if (bad++ == 0) {
      first = i;
      first_label = label;
    }
  }
  if (bad == 0) return;
  const std::string more =
      bad > 1 ? fmt::format(" ({} more items like it)", with_commas(bad - 1)) : "";
  fail("{}: label {} is not in the range 0 to {} of the {} classes{}\nhint: labels count from 0",
       dataset.locate(first), first_label, classes - 1, classes, more);
}

}  // namespace kinet
