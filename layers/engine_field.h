// Caffe's choice between its own kernels and cuDNN's, which model files carry along.
#pragma once

#include "src/prototxt/fields.h"

namespace kinet {

// `engine: CAFFE`: accepted, without effect.
inline Field engine_field() {
  return no_effect(enum_field("engine", {{"DEFAULT", 0}, {"CAFFE", 1}, {"CUDNN", 2}}, "DEFAULT",
                              "Caffe's choice of kernels"));
}

}  // namespace kinet
