#include "src/cli/run_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "src/base/rng.h"
#include "src/prototxt/node.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashedBytes = size_t{1} << 20;  // of a file's head; the rest counts by its size

// The text of a node, a line an item; all have the same name.
void add_lines(const std::string& name, const ParamNode& node, Fingerprint& out) {
  std::istringstream text(node.to_text());
  for (std::string line; std::getline(text, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) out.emplace_back(name, line.substr(begin));
  }
}

std::string file_digest(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return file_digest(path / "data.mdb");  // an LMDB database
  const auto size = fs::file_size(path, error);
  if (error) return "no such file";
  std::ifstream file(path, std::ios::binary);
  std::string head(std::min<uintmax_t>(size, kHashedBytes), '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return fmt::format("{} bytes, hash {:016x}", size, hash_name(head));
}

// Fields of data layers that name a file.
void find_data(const ParamNode& node, std::set<std::string>& seen, Fingerprint& out) {
  constexpr std::array kFileFields{"source", "images", "labels", "mean_file"};
  for (const ParamNode& child : node.children) {
    if (child.is_message()) {
      find_data(child, seen, out);
    } else if (child.kind == ParamNode::Kind::kString &&
               std::find(kFileFields.begin(), kFileFields.end(), child.name) != kFileFields.end() &&
               seen.insert(child.text).second) {
      const std::string path = resolve_path(child.text, child.value_where);
      out.emplace_back(fmt::format("file '{}'", child.text), file_digest(path));
    }
  }
}

void add_net(const std::string& which, const ParamNode& net, Fingerprint& out) {
  for (const ParamNode& child : net.children) {
    const ParamNode* name = child.is_message() ? child.find("name") : nullptr;
    ParamNode wrapped;
    wrapped.children.push_back(child);
    add_lines(name == nullptr ? which : fmt::format("{}, {} '{}'", which, child.name, name->text),
              wrapped, out);
  }
}

// The solver's own fields by name, as --set moves them about; nets are compared as they are after
// all paths have been followed.
void add_solver(const ParamNode& solver, Fingerprint& out) {
  ParamNode copy = solver;
  for (const char* field :
       {"net", "net_param", "train_net", "train_net_param", "test_net", "test_net_param"}) {
    copy.erase(field);
  }
  std::stable_sort(copy.children.begin(), copy.children.end(),
                   [](const ParamNode& a, const ParamNode& b) { return a.name < b.name; });
  for (ParamNode& child : copy.children) {
    if (child.is_message()) {
      add_lines("solver, " + child.name, child, out);
    } else {
      out.emplace_back("solver field " + child.name, child.text);
    }
  }
}

}  // namespace

Fingerprint run_fingerprint(const SolverConfig& config, const SolverOptions& options) {
  Fingerprint out;
  out.emplace_back("--seed", options.seed ? std::to_string(*options.seed) : "none");
  add_solver(*config.params().node(), out);
  add_net("train net", config.train_net(), out);
  for (int i = 0; i < config.test_net_count(); ++i) {
    add_net(fmt::format("test net {}", i), config.test_net(i), out);
  }
  for (const std::string& file : options.weights) {
    out.emplace_back("--weights " + file, file_digest(file));
  }
  if (!options.resume.empty()) out.emplace_back("--resume", file_digest(options.resume));
  std::set<std::string> seen;
  find_data(config.train_net(), seen, out);
  for (int i = 0; i < config.test_net_count(); ++i) find_data(config.test_net(i), seen, out);
  return out;
}

}  // namespace kinet
