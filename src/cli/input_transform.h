// What a data layer does to an image before the net sees it, in words: a deploy net does none of
// it, so whoever uses one has to. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "src/prototxt/node.h"

namespace kinet {

struct InputTransform {
  std::vector<std::string> lines;  // in the order in which they are done
  std::string flags;               // the same for `kinet classify`: "--mean 104,117,123"; may be ""
};

// Reads transform_param and the sizes of a data layer; opens no file.
InputTransform describe_transform(const ParamNode& data);

// The lines as comments at the head of a prototxt file.
std::string transform_comment(const InputTransform& transform);

}  // namespace kinet
