#include "data/mean.h"

#include <cmath>
#include <limits>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/proto/kinet/caffemodel.pb.h"

namespace kinet {
namespace {

// C H W of a blob in the old form (num, channels, height, width) or the new one (shape).
std::vector<int64_t> image_dims(const BlobProto& blob) {
  if (!blob.has_shape()) return {blob.num(), blob.channels(), blob.height(), blob.width()};
  std::vector<int64_t> dims(blob.shape().dim().begin(), blob.shape().dim().end());
  while (dims.size() < 4) dims.insert(dims.begin(), 1);
  return dims;
}

template <class Pixel>
void add_pixels(const Sample& s, const Pixel* pixels, std::vector<double>& sum) {
  const int64_t plane = int64_t{1} * s.height * s.width;
  for (int c = 0; c < s.channels; ++c) {
    const Pixel* in = pixels + (s.interleaved ? c : c * plane);
    const int64_t step = s.interleaved ? s.channels : 1;
    for (int64_t p = 0; p < plane; ++p) sum[c * plane + p] += in[p * step];
  }
}

}  // namespace

std::string MeanImage::size_str() const { return fmt::format("{}x{}x{}", channels, height, width); }

MeanImage read_mean(const std::string& path) {
  BlobProto blob;
  KINET_CHECK(blob.ParseFromString(read_file(path)), "{}: not a mean file (.binaryproto)", path);
  const std::vector<int64_t> dims = image_dims(blob);
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  int64_t count = 1;
  bool fits = dims.size() == 4 && dims[0] == 1;
  for (int64_t dim : dims) {
    fits = fits && dim > 0 && dim <= kMax && count <= kMax / dim;
    if (fits) count *= dim;
  }
  const int64_t values = blob.data_size() > 0 ? blob.data_size() : blob.double_data_size();
  KINET_CHECK(fits && values == count,
              "{}: not a mean file (.binaryproto) or a damaged one: {} values", path, values);
  MeanImage mean{
      static_cast<int>(dims[1]), static_cast<int>(dims[2]), static_cast<int>(dims[3]), {}};
  if (blob.data_size() > 0) {
    mean.values.assign(blob.data().begin(), blob.data().end());
  } else {
    mean.values.assign(blob.double_data().begin(), blob.double_data().end());
  }
  for (size_t i = 0; i < mean.values.size(); ++i) {
    KINET_CHECK(std::isfinite(mean.values[i]),
                "{}: value {} of the mean is {}\nhint: compute it "
                "again from data that is finite",
                path, i, mean.values[i]);
  }
  return mean;
}

// In the old form, which every version of Caffe and of its tools reads.
void write_mean(const MeanImage& mean, const std::string& path) {
  BlobProto blob;
  blob.set_num(1);
  blob.set_channels(mean.channels);
  blob.set_height(mean.height);
  blob.set_width(mean.width);
  blob.mutable_data()->Add(mean.values.begin(), mean.values.end());
  write_file_atomic(path, blob.SerializeAsString());
}

MeanImage compute_mean(const Dataset& dataset) {
  MeanImage mean;
  std::vector<double> sum;
  Sample s;
  for (int64_t i = 0; i < dataset.items(); ++i) {
    dataset.read(i, s);
    if (i == 0) {
      mean = {s.channels, s.height, s.width, {}};
      sum.assign(s.pixels(), 0.0);
    }
    KINET_CHECK(s.channels == mean.channels && s.height == mean.height && s.width == mean.width,
                "{} is {}, but {} is {}: a mean needs images of one size\nhint: resize them",
                dataset.locate(i), s.size_str(), dataset.locate(0), mean.size_str());
    if (s.floats) {
      add_pixels(s, s.floats, sum);
    } else {
      add_pixels(s, s.bytes, sum);
    }
  }
  for (double total : sum) {
    mean.values.push_back(static_cast<float>(total / static_cast<double>(dataset.items())));
  }
  return mean;
}

std::vector<float> channel_means(const MeanImage& mean) {
  const int64_t plane = int64_t{1} * mean.height * mean.width;
  std::vector<float> means;
  for (int c = 0; c < mean.channels; ++c) {
    double sum = 0;
    for (int64_t p = 0; p < plane; ++p) sum += mean.values[c * plane + p];
    means.push_back(static_cast<float>(sum / static_cast<double>(plane)));
  }
  return means;
}

}  // namespace kinet
