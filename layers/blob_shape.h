// The message `shape { dim: 64 dim: 1 ... }` that several layers read.
#pragma once

#include "src/prototxt/fields.h"
#include "src/tensor/shape.h"

namespace kinet {

const MessageType& blob_shape_fields();

// The dimensions as given; every one must be at least 1. Throws Error at the field otherwise.
Shape read_blob_shape(const Params& shape);

}  // namespace kinet
