#include "data/transform.h"

#include "src/base/check.h"

namespace kinet {
namespace {

// One row of one channel; steps are distances in pixels of the source and of the output.
template <class Pixel>
struct Row {
  const Pixel* in;
  int64_t in_step;
  const float* mean;  // a row of the mean image, or null: `level` for all
  float level;
  float* out;
  int64_t out_step;  // 1, or -1 from the last column when mirrored
};

template <class Pixel>
void convert_row(const Row<Pixel>& r, int64_t n, float scale) {
  if (r.mean) {
    for (int64_t x = 0; x < n; ++x) {
      r.out[x * r.out_step] = (static_cast<float>(r.in[x * r.in_step]) - r.mean[x]) * scale;
    }
  } else if (r.in_step == 1 && r.out_step == 1) {  // contiguous: the compiler vectorises this one
    for (int64_t x = 0; x < n; ++x) {
      r.out[x] = (static_cast<float>(r.in[x]) - r.level) * scale;
    }
  } else {
    for (int64_t x = 0; x < n; ++x) {
      r.out[x * r.out_step] = (static_cast<float>(r.in[x * r.in_step]) - r.level) * scale;
    }
  }
}

struct Window {
  int top = 0, left = 0, height = 0, width = 0;
  bool mirror = false;
};

template <class Pixel>
void convert(const Sample& s, const Pixel* pixels, const TransformSpec& spec, const Window& w,
             float* out) {
  const int64_t plane = int64_t{1} * s.height * s.width;
  const int64_t step = s.interleaved ? s.channels : 1;
  const bool whole = !w.mirror && w.width == s.width;  // rows of the window follow each other
  const int64_t rows = whole ? 1 : w.height;
  const int64_t columns = whole ? int64_t{1} * w.height * w.width : w.width;
  const size_t levels = spec.mean_values.size();
  for (int c = 0; c < s.channels; ++c) {
    const float level = levels == 0 ? 0 : spec.mean_values[levels == 1 ? 0 : c];
    for (int64_t y = 0; y < rows; ++y) {
      const int64_t pixel = int64_t{w.top + y} * s.width + w.left;
      Row<Pixel> row;
      row.in = pixels + (s.interleaved ? pixel * step + c : c * plane + pixel);
      row.in_step = step;
      row.mean = spec.mean ? spec.mean->values.data() + c * plane + pixel : nullptr;
      row.level = level;
      row.out = w.mirror ? out + columns - 1 : out;
      row.out_step = w.mirror ? -1 : 1;
      convert_row(row, columns, spec.scale);
      out += columns;
    }
  }
}

}  // namespace

const MessageType& transform_fields() {
  static const MessageType type{
      "transform_param",
      "What is done to each image: (pixel - mean) * scale, crop, mirror.",
      {
          float_field("scale", "1", "Factor applied after the mean is subtracted."),
          bool_field("mirror", "false", "Mirror every second image on average, at random."),
          uint_field("crop_size", "0",
                     "Side of the square cut out, in pixels: at a random place in TRAIN, from the "
                     "centre in TEST; 0 = no crop."),
          path_field("mean_file",
                     "Mean image to subtract (.binaryproto), of the size before the crop."),
          repeated(float_field("mean_value", "",
                               "Value to subtract: one for all channels or one for each, in the "
                               "order blue, green, red.")),
          bool_field("force_color", "false", "Decode encoded images to three channels."),
          bool_field("force_gray", "false", "Decode encoded images to one channel."),
      }};
  return type;
}

TransformSpec read_transform(const Params& params) {
  TransformSpec spec;
  spec.where = params.where();
  spec.scale = params.get_float("scale");
  spec.mirror = params.get_bool("mirror");
  spec.crop_size = params.get_int32("crop_size");
  spec.mean_values = params.get_floats("mean_value");
  spec.mean_file = params.get_string("mean_file");
  spec.force_color = params.get_bool("force_color");
  spec.force_gray = params.get_bool("force_gray");
  if (spec.force_color && spec.force_gray) {
    fail_at(params.where("force_gray"), "force_color and force_gray exclude each other");
  }
  if (spec.mean_file.empty()) return spec;
  const Position where = params.where("mean_file");
  if (!spec.mean_values.empty()) {
    fail_at(where, "mean_file and mean_value exclude each other\nhint: remove one of them");
  }
  const std::string path = resolve_path(spec.mean_file, where);
  try {
    spec.mean = std::make_shared<MeanImage>(read_mean(path));
  } catch (const Error& error) {
    fail_at(where,
            fmt::format("mean_file {}: {}", describe_path(spec.mean_file, where), error.what()));
  }
  return spec;
}

void Transformer::check_mean(const Sample& s, const std::string& item) const {
  const size_t levels = spec_.mean_values.size();
  if (levels > 1 && levels != static_cast<size_t>(s.channels)) {
    fail_at(spec_.where,
            fmt::format("{} mean_value given, but {} has {} channels\nhint: give one value, or "
                        "one for each channel",
                        levels, item, s.channels));
  }
  const MeanImage* mean = spec_.mean.get();
  if (!mean ||
      (mean->channels == s.channels && mean->height == s.height && mean->width == s.width)) {
    return;
  }
  fail_at(spec_.where,
          fmt::format("mean_file '{}' is {}, but {} is {}: the mean must have the size that images "
                      "have before the crop\nhint: compute the mean of this very data set, or give "
                      "one mean_value for each channel instead",
                      spec_.mean_file, mean->size_str(), item, s.size_str()));
}

ImageSize Transformer::output_size(const Sample& s, const std::string& item) const {
  check_mean(s, item);
  const int crop = spec_.crop_size;
  if (crop == 0) return {s.channels, s.height, s.width};
  if (crop > s.height || crop > s.width) {
    fail_at(spec_.where,
            fmt::format("crop_size {} is larger than {}, which is {}", crop, item, s.size_str()));
  }
  return {s.channels, crop, crop};
}

void Transformer::apply(const Sample& s, Rng rng, float* out) const {
  Window w{0, 0, s.height, s.width, false};
  if (spec_.mirror) w.mirror = rng.below(2) == 1;
  if (spec_.crop_size > 0) {
    w.height = w.width = spec_.crop_size;
    const int down = s.height - w.height, right = s.width - w.width;
    const bool random = phase_ == Phase::kTrain;
    w.top = random ? static_cast<int>(rng.below(down + 1)) : down / 2;
    w.left = random ? static_cast<int>(rng.below(right + 1)) : right / 2;
  }
  if (s.floats) {
    convert(s, s.floats, spec_, w, out);
  } else {
    convert(s, s.bytes, spec_, w, out);
  }
}

}  // namespace kinet
