// Results of cells on disk: a folder with one JSON file for each, named by a hash of everything
// that the result depends on. What was computed once is found again; what changed has another name.
//
// Thread safety: find() and save() may be called by several threads, and by several processes in
// one folder: a file comes into being whole or not at all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "src/sim/experiment_cell.h"

namespace kinet {

class CellStore {
 public:
  // Makes the folder. Throws Error when nothing can be written there.
  explicit CellStore(const std::filesystem::path& folder);

  // 32 hexadecimal digits.
  static std::string key(const std::string& depends);

  // Nothing when it is not there, or is no whole result of these `depends`.
  std::optional<CellResult> find(const std::string& depends) const;
  void save(const std::string& depends, const std::string& label, const CellResult& result) const;

 private:
  std::filesystem::path path_of(const std::string& depends) const;
  std::filesystem::path folder_;
};

// A result as JSON text, and back; nothing when it is not whole.
std::string result_to_json(const std::string& label, const CellResult& result);
std::optional<CellResult> result_from_json(const std::string& text);

}  // namespace kinet
