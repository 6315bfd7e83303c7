#include "src/solver/starting_weights.h"

#include <algorithm>

#include "src/base/text.h"

namespace kinet {
namespace {

// The files of "a, b", as a flag or a field gives them.
std::vector<std::string> weight_files(const std::string& text, const Position& where) {
  std::vector<std::string> files = split_list(text);
  if (std::find(files.begin(), files.end(), "") != files.end()) {
    fail_at(where, fmt::format("weights: \"{}\" holds an empty file name\nhint: several files are "
                               "written \"a,b\"",
                               text));
  }
  return files;
}

}  // namespace

std::vector<std::string> starting_weights(const SolverConfig& config,
                                          const std::vector<std::string>& given) {
  std::vector<std::string> all;
  for (const std::string& text : given) {
    for (const std::string& file : weight_files(text, {})) all.push_back(file);
  }
  if (!all.empty()) return all;
  const Params params = config.params();
  const Position where = params.where("weights");
  for (const std::string& text : params.get_strings("weights")) {
    for (const std::string& file : weight_files(text, where)) {
      all.push_back(resolve_path(file, where));
    }
  }
  return all;
}

}  // namespace kinet
