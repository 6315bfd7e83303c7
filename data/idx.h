// IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped.
//
// Layout: 4 bytes 0 0 type axes (type 8 = unsigned byte, the only one read here), then one
// big-endian 32-bit size an axis, then the values, last axis fastest.
// Reference: the format note on the MNIST page of LeCun, Cortes and Burges.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace kinet {

struct IdxFile {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> values;
};

// Throws Error naming the file when it is missing, no IDX file of bytes, truncated or too long (the
// sizes expected and found).
IdxFile read_idx(const std::string& path);

// Images N H W or N C H W beside labels N; both files are read whole at opening.
std::shared_ptr<const Dataset> open_idx(const std::string& images, const std::string& labels);

}  // namespace kinet
