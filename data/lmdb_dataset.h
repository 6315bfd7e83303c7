// LMDB databases of Datums, Caffe's usual data set format.
//
// Items are in the order of their keys. The database is opened read-only and without locks, so that
// any number of layers and processes may have it open, from read-only and network disks too.
// Invariant: nobody writes to the database while it is open (without locks a writer would not know
//            of us).
#pragma once

#include <memory>
#include <string>

#include "data/dataset.h"
#include "data/image_library.h"

namespace kinet {

// path: the database's folder, or its data file. mode is for encoded Datums. Throws Error naming
// the path when there is none, it is no LMDB (LevelDB is recognised), truncated, empty or not
// permitted.
std::shared_ptr<const Dataset> open_lmdb(const std::string& path,
                                         ColorMode mode = ColorMode::kAsStored);

}  // namespace kinet
