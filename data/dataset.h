// A data set: items that can be read in any order. Who reads which item when is order.h's matter,
// what is done to the pixels transform.h's.
//
// Thread safety: const functions may be called from several threads at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kinet {

// One item. The pixels are bytes or floats, whichever pointer is set; they lie in the data set's
// memory or in the sample's own storage, and stay valid while both live and until the next read
// into the same sample.
struct Sample {
  int channels = 0, height = 0, width = 0;
  bool interleaved = false;  // pixels lie as H W C (decoded images) instead of C H W
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  int64_t label = 0;
  std::vector<uint8_t> byte_storage;
  std::vector<float> float_storage;

  int64_t pixels() const { return int64_t{1} * channels * height * width; }
  std::string size_str() const;  // "3x32x32"
  // Becomes a decoded image: H W C bytes, kept in the sample's own storage.
  void set_image(std::vector<uint8_t> pixels, int c, int h, int w);
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual int64_t items() const = 0;
  // Fills `sample`; its storage is reused. Throws Error, which names the item, when it is bad.
  virtual void read(int64_t index, Sample& sample) const = 0;
  // The label alone, as cheaply as the format allows.
  virtual int64_t label(int64_t index) const;
  // Where the item stands, for messages: "list.txt:17 (cat.jpg)", "item 5 of train-images.gz".
  virtual std::string locate(int64_t index) const = 0;
  virtual std::string describe() const = 0;  // "60,000 images 1x28x28 from train-images.gz"
};

// The dry run of the range check that the loss does in training: reads every label and throws Error
// naming the first item whose label is not in [0, classes), and how many more there are.
void check_labels(const Dataset& dataset, int64_t classes);

}  // namespace kinet
