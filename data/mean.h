// The mean image of a data set, as Caffe's .binaryproto files hold it (one BlobProto).
//
// Shapes: values are C H W, of the images' size before any crop.
// Thread safety: a value type.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace kinet {

struct MeanImage {
  int channels = 0, height = 0, width = 0;
  std::vector<float> values;

  std::string size_str() const;  // "3x32x32"
};

// Throws Error naming the file when it is missing or no mean file.
MeanImage read_mean(const std::string& path);

void write_mean(const MeanImage& mean, const std::string& path);

// The mean over all items, summed in double precision. Throws Error naming the first item whose
// size differs from the first one's.
MeanImage compute_mean(const Dataset& dataset);

// The mean of each channel, to be given as mean_value.
std::vector<float> channel_means(const MeanImage& mean);

}  // namespace kinet
