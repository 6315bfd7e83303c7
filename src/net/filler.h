// Fillers: how a parameter starts. Formulas in filler.cc.
#pragma once

#include <span>
#include <string>

#include "src/base/rng.h"
#include "src/prototxt/fields.h"
#include "src/tensor/shape.h"

namespace kinet {

struct FillerSpec {
  std::string type = "constant";
  float value = 0;          // constant
  float min = 0, max = 1;   // uniform
  float mean = 0, std = 1;  // gaussian
  int sparse = -1;          // gaussian: expected non-zero inputs of each output; -1 = dense
  std::string variance_norm = "FAN_IN";  // xavier, msra: FAN_IN, FAN_OUT, AVERAGE
  Position where;
};

// The fields of weight_filler, bias_filler, ...
const MessageType& filler_fields();

// Reads a filler message; absent: constant `default_value`. Unknown types are reported with the
// nearest valid one.
FillerSpec read_filler(const Params& filler, float default_value = 0);

// Fills `out` (shape.count() floats). fan_in = count / dim 0, fan_out = count / dim 1 as in Caffe.
void fill(const FillerSpec& spec, const Shape& shape, Rng rng, std::span<float> out);

// constant, gaussian, uniform, xavier, msra, positive_unitball, bilinear.
std::vector<std::string> filler_types();

}  // namespace kinet
