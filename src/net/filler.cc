// Formulas, for a blob of `count` values with first dimensions d0, d1:
//   constant           value
//   uniform            U[min, max)
//   gaussian           N(mean, std^2); sparse s >= 0: each value is kept with probability s / d0
//   xavier             U[-a, a), a = sqrt(3 / n)          (Glorot and Bengio 2010)
//   msra               N(0, 2 / n)                        (He et al. 2015)
//   positive_unitball  U[0, 1), each of the d0 rows divided by its sum
//   bilinear           (1 - |x/f - c|)(1 - |y/f - c|), f = ceil(k / 2), c = (k - 1) / (2 f)
// with n = fan_in = count / d0, fan_out = count / d1, or their mean (variance_norm).
#include "src/net/filler.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

void fill_uniform(float low, float high, Rng& rng, std::span<float> out) {
  for (float& v : out) v = rng.uniform(low, high);
}

void fill_gaussian(float mean, float std, Rng& rng, std::span<float> out) {
  for (float& v : out) v = mean + std * rng.gaussian();
}

// After the gaussian: the same sequence decides which values stay.
void thin_out(const FillerSpec& spec, const Shape& shape, Rng& rng, std::span<float> out) {
  const double outputs = shape.axes() > 0 ? static_cast<double>(shape[0]) : 1.0;
  const auto keep = static_cast<float>(spec.sparse / outputs);
  for (float& v : out) {
    if (!rng.bernoulli(keep)) v = 0;
  }
}

double fan(const FillerSpec& spec, const Shape& shape) {
  const auto count = static_cast<double>(shape.count());
  const double in = shape.axes() > 0 ? count / static_cast<double>(shape[0]) : count;
  const double out = shape.axes() > 1 ? count / static_cast<double>(shape[1]) : count;
  if (spec.variance_norm == "FAN_OUT") return out;
  return spec.variance_norm == "AVERAGE" ? (in + out) / 2 : in;
}

void fill_positive_unitball(const Shape& shape, Rng& rng, std::span<float> out) {
  fill_uniform(0, 1, rng, out);
  const int64_t rows = shape.axes() > 0 ? shape[0] : 1;
  const int64_t width = rows > 0 ? shape.count() / rows : 0;
  for (int64_t r = 0; r < rows; ++r) {
    const std::span<float> row = out.subspan(r * width, width);
    double sum = 0;
    for (float v : row) sum += v;
    for (float& v : row) v = sum > 0 ? static_cast<float>(v / sum) : 0;
  }
}

void fill_bilinear(const FillerSpec& spec, const Shape& shape, std::span<float> out) {
  if (shape.axes() != 4 || shape[2] != shape[3]) {
    fail_at(spec.where,
            "a bilinear filler needs 4 axes and a square kernel, not shape " + shape.str());
  }
  const int64_t k = shape[3];
  const double f = std::ceil(static_cast<double>(k) / 2);
  const double c = static_cast<double>(k - 1) / (2 * f);
  for (size_t i = 0; i < out.size(); ++i) {
    const double x = static_cast<double>(i % k), y = static_cast<double>(i / k % k);
    out[i] = static_cast<float>((1 - std::abs(x / f - c)) * (1 - std::abs(y / f - c)));
  }
}

void check_values(const FillerSpec& spec) {
  if (spec.type == "uniform" && spec.min > spec.max) {
    fail_at(spec.where, fmt::format("uniform filler: min {} is above max {}", spec.min, spec.max));
  }
  if (spec.type == "gaussian" && (spec.std < 0 || spec.sparse < -1)) {
    fail_at(spec.where, fmt::format("gaussian filler: std {} and sparse {} must not be negative",
                                    spec.std, spec.sparse));
  }
}

}  // namespace

const MessageType& filler_fields() {
  static const MessageType type{
      "filler",
      "how a parameter starts",
      {
          string_field("type", "constant",
                       "constant, gaussian, uniform, xavier, msra, positive_unitball, bilinear"),
          float_field("value", "0", "of constant"),
          float_field("min", "0", "of uniform"),
          float_field("max", "1", "of uniform"),
          float_field("mean", "0", "of gaussian"),
          float_field("std", "1", "of gaussian: standard deviation"),
          int_field("sparse", "-1",
                    "of gaussian: expected non-zero inputs of each output; -1 = dense"),
          enum_field("variance_norm", {{"FAN_IN", 0}, {"FAN_OUT", 1}, {"AVERAGE", 2}}, "FAN_IN",
                     "of xavier and msra: which number of connections sets the spread"),
      }};
  return type;
}

std::vector<std::string> filler_types() {
  return {"constant", "gaussian", "uniform", "xavier", "msra", "positive_unitball", "bilinear"};
}

FillerSpec read_filler(const Params& filler, float default_value) {
  FillerSpec spec;
  spec.value = default_value;
  if (!filler.present()) return spec;
  spec.type = filler.get_string("type");
  spec.value = filler.get_float("value");
  spec.min = filler.get_float("min");
  spec.max = filler.get_float("max");
  spec.mean = filler.get_float("mean");
  spec.std = filler.get_float("std");
  spec.sparse = filler.get_int32("sparse");
  spec.variance_norm = filler.get_enum("variance_norm");
  spec.where = filler.where("type");
  const std::vector<std::string> known = filler_types();
  if (std::find(known.begin(), known.end(), spec.type) == known.end()) {
    fail_at(spec.where,
            fmt::format("unknown filler type '{}'{}", spec.type, did_you_mean(spec.type, known)));
  }
  check_values(spec);
  return spec;
}

void fill(const FillerSpec& spec, const Shape& shape, Rng rng, std::span<float> out) {
  KINET_CHECK(static_cast<int64_t>(out.size()) == shape.count(),
              "a filler got {} values for shape {}", out.size(), shape.str());
  if (spec.type == "constant") {
    std::fill(out.begin(), out.end(), spec.value);
  } else if (spec.type == "uniform") {
    fill_uniform(spec.min, spec.max, rng, out);
  } else if (spec.type == "gaussian") {
    fill_gaussian(spec.mean, spec.std, rng, out);
    if (spec.sparse >= 0) thin_out(spec, shape, rng, out);
  } else if (spec.type == "xavier") {
    const auto a = static_cast<float>(std::sqrt(3 / fan(spec, shape)));
    fill_uniform(-a, a, rng, out);
  } else if (spec.type == "msra") {
    fill_gaussian(0, static_cast<float>(std::sqrt(2 / fan(spec, shape))), rng, out);
  } else if (spec.type == "positive_unitball") {
    fill_positive_unitball(shape, rng, out);
  } else if (spec.type == "bilinear") {
    fill_bilinear(spec, shape, out);
  } else {
    fail_at(spec.where, "unknown filler type '" + spec.type + "'");
  }
}

}  // namespace kinet
