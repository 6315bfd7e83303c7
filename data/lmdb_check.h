// Looks through an LMDB file before LMDB itself does: LMDB trusts what it maps, and ends the
// process (a failed assertion, an address outside the map) where a page is damaged.
//
// Checked are both headers and every page that leads to an item: that it lies inside the file, is
// of the right kind at the right depth, is reached once, and that its keys and values lie inside it
// or, for large values, inside the file. A database that passes is safe to walk and to point into.
// The contents of values carry no checksum; a damaged value is found when it is parsed, or not at
// all. Large values are not touched, so little of the file is read.
//
// Reference: the file format of LMDB 0.9, version 1, on a 64-bit little-endian machine.
// Thread safety: a pure function of the file.
#pragma once

#include <string>

namespace kinet {

// `file`: the data file itself. Throws Error that names it.
void check_lmdb_file(const std::string& file);

}  // namespace kinet
