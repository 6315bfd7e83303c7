// Reads a built net from outside: nothing here changes it but one pass of its data layers.
#include "src/cli/net_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/options.h"
#include "src/cli/table.h"
#include "src/solver/solver.h"

namespace kinet {
namespace {

// Floats a layer's tops take up beyond what earlier layers have: each block of memory counts once,
// where it is first seen.
uint64_t new_bytes(const std::vector<Tensor*>& tops, std::set<const Buffer*>& seen) {
  uint64_t floats = 0;
  for (const Tensor* top : tops) {
    for (const Buffer* block : {top->data_buffer().get(), top->diff_buffer().get()}) {
      if (block != nullptr && seen.insert(block).second) floats += block->capacity();
    }
  }
  return floats * sizeof(float);
}

std::string shapes_of(const std::vector<Tensor*>& tops) {
  std::vector<std::string> parts;
  for (const Tensor* top : tops) parts.push_back(top->shape().str());
  constexpr size_t kShown = 2;  // a Split has as many equal ones as it has readers
  if (parts.size() > kShown + 1) {
    parts.resize(kShown);
    parts.push_back(fmt::format("({} tops)", tops.size()));
  }
  return join(parts, " ");
}

int64_t parameters_of(const Net& net, const std::string& layer) {
  int64_t count = 0;
  for (const ParameterInfo& info : net.parameters()) {
    if (info.layer == layer && !info.is_buffer) count += static_cast<int64_t>(info.count);
  }
  return count;
}

std::string macs_text(double macs) {
  return macs > 0 ? with_commas(static_cast<int64_t>(macs)) : "";
}

// Loss and accuracy mostly ask the same of the same labels: once is enough.
void add_use(LabelUse use, std::vector<LabelUse>& uses) {
  for (LabelUse& known : uses) {
    if (known.source != use.source || known.classes != use.classes) continue;
    known.reader += "' and '" + use.reader;
    known.several_readers = true;
    return;
  }
  uses.push_back(std::move(use));
}

bool has_layers(const ParamNode& root) {
  return root.find("layer") != nullptr || root.find("layers") != nullptr;
}

}  // namespace

bool is_solver_file(const std::string& path) {
  const ParamNode root = parse_prototxt_file(path);
  const auto known_to = [&root](const MessageType& type) {
    return std::count_if(root.children.begin(), root.children.end(),
                         [&](const ParamNode& child) { return type.find(child.name) != nullptr; });
  };
  return !has_layers(root) && known_to(SolverConfig::fields()) > known_to(net_fields());
}

void require_solver_file(const std::string& path, const std::string& what) {
  require_file(path, what);
  KINET_CHECK(!has_layers(parse_prototxt_file(path)),
              "{}: this is a net file, but {} takes a solver file, which names its net (net: "
              "\"net.prototxt\") and says how to train it",
              path, what);
}

void require_net_file(const std::string& path, const std::string& what) {
  require_file(path, what);
  if (!is_solver_file(path)) return;
  const ParamNode root = parse_prototxt_file(path);
  const ParamNode* net = root.find("net");
  const bool named = net != nullptr && !net->is_message();
  fail("{}: this is a solver file, but {} takes a net file{}", path, what,
       named ? fmt::format(", such as the one it names: {}", resolve_path(net->text, net->where))
             : "");
}

std::string layer_table(const Net& net) {
  Table table({"layer", "type", "output", ">parameters", ">memory", ">multiply-adds", "modes"});
  std::set<const Buffer*> seen;
  for (int i = 0; i < net.layer_count(); ++i) {
    const Layer& layer = net.layer(i);
    const int64_t parameters = parameters_of(net, layer.name());
    const uint64_t bytes = new_bytes(net.tops(i), seen);
    table.add({layer.name(), layer.type().type, shapes_of(net.tops(i)),
               parameters > 0 ? with_commas(parameters) : "", bytes > 0 ? human_bytes(bytes) : "",
               macs_text(layer.macs()), layer.type().is_data ? "" : layer.summary()});
  }
  table.add_rule();
  table.add({fmt::format("{} layers", net.layer_count()), "", "",
             with_commas(net.parameter_count()), human_bytes(net.activation_bytes()),
             macs_text(net.macs())});
  return table.str() +
         "memory: activations, their gradients and workspaces, each block where it is first used\n";
}

std::string read_first_batch(Net& net, int threads) {
  Context context;
  context.phase = net.spec().state.phase;
  context.threads = threads;
  std::vector<std::string> lines;
  for (int i = 0; i < net.layer_count(); ++i) {
    Layer& layer = net.layer(i);
    if (!layer.type().is_data) continue;
    net.forward_layer(context, i);
    if (layer.batch_source() == nullptr) continue;
    lines.push_back(fmt::format("{}: {}; first batch read, {}", layer.name(), layer.summary(),
                                net.tops(i)[0]->shape().str()));
  }
  return lines.empty() ? "No data set: the tops of Input and DummyData layers are made here"
                       : join(lines, "\n");
}

std::vector<LabelUse> find_label_uses(Net& net) {
  std::vector<LabelUse> uses;
  for (int i = 0; i < net.layer_count(); ++i) {
    const Layer& reader = net.layer(i);
    if (reader.label_classes() <= 0) continue;
    for (const int bottom : reader.type().label_bottoms) {
      if (bottom >= static_cast<int>(net.bottoms(i).size())) continue;
      // A Split between them shares the label's memory, so the block tells where it comes from.
      const Buffer* block = net.bottoms(i)[bottom]->data_buffer().get();
      for (int j = 0; j < i; ++j) {
        BatchSource* source = net.layer(j).batch_source();
        if (source == nullptr || net.tops(j).size() < 2) continue;
        if (net.tops(j)[1]->data_buffer().get() != block) continue;
        add_use({source, net.layer(j).name(), reader.name(), reader.label_classes()}, uses);
      }
    }
  }
  return uses;
}

std::string check_labels_of(const LabelUse& use) {
  use.source->check_labels(use.classes);
  return fmt::format("{}: all {} labels lie in [0, {}), as '{}' {}", use.data_layer,
                     with_commas(use.source->items()), use.classes, use.reader,
                     use.several_readers ? "ask" : "asks");
}

}  // namespace kinet
