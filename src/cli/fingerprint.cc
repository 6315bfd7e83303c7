#include "src/cli/fingerprint.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

#include "src/base/build_info.h"
#include "src/base/rng.h"
#include "src/solver/effective_files.h"

namespace kinet {
namespace {

using Fingerprint = std::vector<std::pair<std::string, std::string>>;

std::string digest(std::string_view bytes) {
  return fmt::format("{:016x}", hash_name(bytes));
}

// Line by line, so that the difference that is printed is the line itself.
void add_lines(const std::string& name, const std::string& text, Fingerprint& out) {
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line[0] != '#')
      out.emplace_back(fmt::format("{} line {}", name, number), line);
  }
}

std::string weights_digest(Solver& solver) {
  const std::span<const float> weights = solver.train_net().parameter_arena();
  const auto bytes = std::as_bytes(weights);
  return digest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

std::vector<std::pair<std::string, std::string>> run_fingerprint(const SolverConfig& config,
                                                                 Solver& solver) {
  Fingerprint out;
  out.emplace_back("build", build_info_line());
  out.emplace_back("seed", std::to_string(solver.seed()));
  RunSettings settings;
  settings.seed = solver.seed();
  settings.weights = solver.weights();
  for (const auto& [name, text] : effective_files(config, settings)) {
    if (name == "solver.prototxt") {
      add_lines(name, text, out);
    } else {
      out.emplace_back(name, digest(text));
    }
  }
  for (const BatchSource* source : solver.train_net().batch_sources()) {
    out.emplace_back("training data", source->describe());
  }
  out.emplace_back("iteration to start from", std::to_string(solver.iteration()));
  out.emplace_back("weights to start from", weights_digest(solver));
  return out;
}

}  // namespace kinet
