// Split layers: a tensor that several layers read gets one copy (of its gradient only) a reader.
#pragma once

#include "src/net/net_spec.h"

namespace kinet {

// Inserts after each layer, for each of its tops with more than one reader, a layer of type Split
// named <blob>_<layer>_<top index>_split with tops <the same>_0, _1, ... in reading order, and lets
// the readers read those. A loss weight counts as a reader and moves to the split's first top. An
// in-place layer makes a new version of its blob, which has readers of its own. Idempotent.
// REQUIRES: every bottom is made by an earlier layer.
void insert_splits(NetSpec& spec);

}  // namespace kinet
