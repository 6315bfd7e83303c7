// What is done to the pixels of one item: subtract the mean, scale, crop, mirror.
//
// Equation: out = (x - mean) * scale, for each pixel of the crop window; with mirror, columns are
//           then reversed in every second item on average, in both phases (as Caffe has it).
// Shapes:   in C H W or H W C bytes or floats; out C H W floats, or C crop crop.
// Crop:     at a random place in TRAIN, from the centre in TEST.
// Thread safety: const after construction; several threads may apply it at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/mean.h"
#include "src/base/context.h"
#include "src/base/rng.h"
#include "src/prototxt/fields.h"

namespace kinet {

// The fields of transform_param.
const MessageType& transform_fields();

struct TransformSpec {
  float scale = 1;
  bool mirror = false;
  int crop_size = 0;  // 0: none
  std::vector<float> mean_values;
  std::shared_ptr<const MeanImage> mean;
  std::string mean_file;  // as written
  bool force_color = false, force_gray = false;
  Position where;
};

// Reads the message and the mean file; reports what can be judged without an image.
TransformSpec read_transform(const Params& params);

struct ImageSize {
  int channels = 0, height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
  int64_t count() const { return int64_t{1} * channels * height * width; }
};

class Transformer {
 public:
  Transformer(TransformSpec spec, Phase phase) : spec_(std::move(spec)), phase_(phase) {}

  const TransformSpec& spec() const { return spec_; }
  // The size that apply() makes of such a sample. Throws Error when mean, mean values or crop do
  // not fit; `item` says whose image it is.
  ImageSize output_size(const Sample& sample, const std::string& item) const;
  // Whether images of any size come out alike (given as many channels).
  bool fixes_size() const { return spec_.crop_size > 0; }

  // REQUIRES: output_size(sample) was accepted; out has room for that. Draws from `rng` as needed.
  void apply(const Sample& sample, Rng rng, float* out) const;

 private:
  void check_mean(const Sample& sample, const std::string& item) const;

  const TransformSpec spec_;
  const Phase phase_;
};

}  // namespace kinet
