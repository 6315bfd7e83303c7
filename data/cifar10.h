// The binary version of CIFAR-10: files of records of 3,073 bytes, one label and then the 32 x 32
// red, green and blue planes.
//
// Images are handed out blue, green, red, like everything else in kinet, so that a model trained
// on them classifies image files too. (Caffe's own conversion keeps red first.)
// Reference: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace kinet {

// The files are read whole, one after the other. Throws Error naming a file that is missing, empty,
// or no multiple of a record.
std::shared_ptr<const Dataset> open_cifar10(const std::vector<std::string>& files);

}  // namespace kinet
