// Small LMDB databases for tests.
#pragma once

#include <string>

#include "data/lmdb_writer.h"
#include "src/proto/kinet/datum.pb.h"
#include "tests/data_files.h"

namespace kinet {

inline Datum raw_datum(int c, int h, int w, int value, int label) {
  Datum d;
  d.set_channels(c);
  d.set_height(h);
  d.set_width(w);
  d.set_data(std::string(static_cast<size_t>(c) * h * w, static_cast<char>(value)));
  d.set_label(label);
  return d;
}

// `items` Datums of 1 x 2 x 3 whose pixels and label are the item's index.
inline std::string write_counting_lmdb(const TemporaryFolder& folder, const std::string& name,
                                       int items) {
  LmdbWriter writer(folder / name);
  for (int i = 0; i < items; ++i) writer.put(datum_key(i, "x"), raw_datum(1, 2, 3, i, i));
  writer.finish();
  return folder / name;
}

}  // namespace kinet
