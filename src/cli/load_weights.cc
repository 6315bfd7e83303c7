#include "src/cli/load_weights.h"

#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/net/caffemodel.h"

namespace kinet {
namespace {

// Blobs that two layers share by name need to come with one of them only.
std::set<const float*> blobs_but_of(Net& net, const std::set<std::string>& missing) {
  std::set<const float*> loaded;
  for (int i = 0; i < net.layer_count(); ++i) {
    Layer& layer = net.layer(i);
    if (missing.contains(layer.name())) continue;
    for (const Tensor& blob : layer.blobs()) loaded.insert(blob.data());
  }
  return loaded;
}

std::vector<std::string> layers_left_out(Net& net, const std::set<std::string>& missing) {
  const std::set<const float*> loaded = blobs_but_of(net, missing);
  std::vector<std::string> out;
  for (const std::string& name : missing) {
    const std::vector<Tensor>& blobs = net.layer(net.layer_index(name)).blobs();
    const bool shared = std::all_of(blobs.begin(), blobs.end(),
                                    [&](const Tensor& b) { return loaded.contains(b.data()); });
    if (!shared) out.push_back("'" + name + "'");
  }
  return out;
}

}  // namespace

std::vector<std::string> load_all_weights(const std::vector<std::string>& files, Net& net) {
  std::vector<std::string> lines;
  std::set<std::string> missing, unused;
  for (size_t i = 0; i < files.size(); ++i) {
    const WeightsReport report = copy_weights(Model::read(files[i]), net);
    lines.push_back(report.summary(files[i]));
    const std::set<std::string> now(report.uninitialised.begin(), report.uninitialised.end());
    if (i == 0) missing = now;
    std::erase_if(missing, [&](const std::string& name) { return !now.contains(name); });
    unused.insert(report.unused.begin(), report.unused.end());
  }
  const std::vector<std::string> left = layers_left_out(net, missing);
  KINET_CHECK(left.empty(),
              "{}: no weights for {} of net '{}': {}{}\nhint: these are the weights of another "
              "net, or of a part of it; --weights a,b takes several files (only 'kinet train' may "
              "begin with a part)",
              join(files, ", "), left.size() == 1 ? "layer" : "layers", net.name(),
              join(left, ", "),
              unused.empty() ? ""
                             : fmt::format("\n  layers of the file that the net lacks: {}",
                                           join({unused.begin(), unused.end()}, ", ")));
  return lines;
}

}  // namespace kinet
