#include "src/solver/effective_files.h"

#include <filesystem>
#include <limits>
#include <sstream>

#include "src/net/net_spec.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::pair<std::string, std::string>>;

// The net with the paths of its layers made absolute.
std::string net_text(const ParamNode& net) {
  ParamNode copy = net;
  for (ParamNode& layer : copy.children) {
    const ParamNode* type = layer.name == "layer" ? layer.find("type") : nullptr;
    const LayerType* known = type == nullptr ? nullptr : LayerRegistry::instance().find(type->text);
    if (known != nullptr) make_paths_absolute(layer, layer_fields_of(*known));
  }
  return copy.to_text();
}

// Test nets that have a field of their own; the rest are made of the common net (SolverConfig).
int named_test_nets(const Params& solver) {
  return solver.count("test_net") + solver.count("test_net_param");
}

// Takes the nets' fields out and names the saved files instead, in the same order.
void name_saved_nets(const SolverConfig& config, ParamNode& root, Files& files) {
  const Params solver = config.params();
  const bool common = solver.has("net") || solver.has("net_param");
  const int named = named_test_nets(solver);
  for (const char* field :
       {"net", "net_param", "train_net", "train_net_param", "test_net", "test_net_param"}) {
    root.erase(field);
  }
  ParamNode nets;
  const std::string train = net_text(config.train_net());
  files.emplace_back("net.prototxt", train);
  nets.add_string(common ? "net" : "train_net", "net.prototxt");
  for (int i = 0; i < named; ++i) {
    const std::string text = net_text(config.test_net(i));
    const std::string name =
        text == train ? "net.prototxt" : "test_net_" + std::to_string(i) + ".prototxt";
    if (text != train) files.emplace_back(name, text);
    nets.add_string("test_net", name);
  }
  root.children.insert(root.children.begin(), std::make_move_iterator(nets.children.begin()),
                       std::make_move_iterator(nets.children.end()));
}

void write_settings(const SolverConfig& config, const RunSettings& settings, ParamNode& root) {
  if (!settings.weights.empty()) root.erase("weights");
  for (const std::string& file : settings.weights) {
    root.add_string("weights", fs::absolute(file).lexically_normal().string());
  }
  if (settings.seed <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    root.erase("random_seed");
    root.add_scalar("random_seed", std::to_string(settings.seed));
  }
  const std::string stem = fs::path(config.path()).stem().string();
  if (root.find("snapshot_prefix") == nullptr && !stem.empty()) {
    root.add_string("snapshot_prefix", stem);  // the default goes by the name of the solver file
  }
}

std::string as_comment(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
  return out;
}

}  // namespace

Files effective_files(const SolverConfig& config, const RunSettings& settings) {
  Files files;
  ParamNode root = *config.params().node();
  name_saved_nets(config, root, files);
  write_settings(config, settings, root);
  files.insert(files.begin(), {"solver.prototxt", as_comment(settings.comment) + root.to_text()});
  return files;
}

}  // namespace kinet
