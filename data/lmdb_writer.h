// Writes a new LMDB database, key by key in ascending order.
//
// The map begins small and is doubled as needed, so no size has to be guessed. Items are committed
// in blocks; a block that does not fit is written again into the larger map.
// Thread safety: none.
#pragma once

#include <memory>
#include <string>

namespace kinet {

class Datum;

class LmdbWriter {
 public:
  // folder: is made when missing. map_bytes: where the map begins. Throws run-time Errors (full
  // disk, no permission) that name the folder.
  explicit LmdbWriter(const std::string& folder, size_t map_bytes = size_t{64} << 20);
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  // REQUIRES: key greater than the last one, of 1 to 511 bytes.
  void put(const std::string& key, const std::string& value);
  void put(const std::string& key, const Datum& datum);
  // Writes what is pending and flushes to the disk. Without it the last block is lost.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Caffe's form of key: the item's number, then its name, cut to what LMDB takes.
std::string datum_key(int64_t number, const std::string& name);

}  // namespace kinet
