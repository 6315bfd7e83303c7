// Which tensors of a net may share memory.
//
// Values are looked at in the order in which they are made. A Split's tops share the data of its
// bottom; Reshape and Flatten share data and gradient. A layer written in place shares both, but
// only when overwriting the old content damages nothing:
//   * the layer itself does not read its bottom in backward;
//   * no value in that memory is a top that its maker reads again in backward (Sigmoid, LRN ...),
//     or that its maker does not rewrite at every pass (Input);
//   * no other layer reads a value in that memory later, or in its backward.
// Otherwise the top gets memory of its own and the copy is noted: slower by one pass, never wrong.
#include <string>
#include <vector>

#include "src/net/net_builder.h"

namespace kinet {
namespace {

class MemoryPlanner {
 public:
  MemoryPlanner(const Net& net, const std::vector<NetValue>& values,
                const std::vector<std::vector<int>>& bottoms,
                const std::vector<std::vector<int>>& tops, const std::vector<bool>& runs_backward)
      : net_(net), values_(values), bottoms_(bottoms), tops_(tops), runs_backward_(runs_backward) {}

  MemoryPlan plan() {
    plan_.data_class.resize(values_.size());
    plan_.diff_class.resize(values_.size());
    for (int i = 0; i < net_.layer_count(); ++i) {
      for (size_t t = 0; t < tops_[i].size(); ++t) place(i, static_cast<int>(t));
    }
    return std::move(plan_);
  }

 private:
  void place(int layer, int top) {
    const int value = tops_[layer][top];
    const LayerType& type = net_.layer(layer).type();
    if (type.top_memory != TopMemory::kOwn) {
      const int bottom = bottoms_[layer][0];
      const bool both = type.top_memory == TopMemory::kSharesDataAndDiff;
      if (both && values_[bottom].blob == values_[value].blob && type.refuses_in_place) {
        refuse(layer);
      }
      share(value, bottom, both);
    } else if (written_in_place(layer, top)) {
      place_in_place(layer, value, bottoms_[layer][top]);
    } else {
      own(value);
    }
  }

  bool written_in_place(int layer, int top) const {
    if (top >= static_cast<int>(bottoms_[layer].size())) return false;
    return values_[bottoms_[layer][top]].blob == values_[tops_[layer][top]].blob;
  }

  void place_in_place(int layer, int value, int bottom) {
    if (net_.layer(layer).type().refuses_in_place) refuse(layer);
    const std::string reason = damage(layer, bottom);
    if (reason.empty()) return share(value, bottom, true);
    own(value);
    plan_.notes.push_back(
        fmt::format("layer '{}' is written in place on '{}' but runs on a copy: {}",
                    net_.layer(layer).name(), values_[bottom].blob, reason));
  }

  [[noreturn]] void refuse(int layer) const {
    const Layer& l = net_.layer(layer);
    fail_at(net_.spec().layers[layer].node->where,
            fmt::format("layer '{}' ({}) cannot run in place; give its top another name", l.name(),
                        l.type().type));
  }

  // Why `layer` may not overwrite the memory of `bottom`; "" when it may.
  std::string damage(int layer, int bottom) const {
    const Layer& self = net_.layer(layer);
    if (!self.may_run_in_place()) return "type " + self.type().type + " does not run in place";
    if (runs_backward_[layer] && self.needs().bottom_data) {
      return "its own backward reads the input";
    }
    for (size_t u = 0; u < values_.size(); ++u) {
      if (values_[u].maker >= layer || plan_.data_class[u] != plan_.data_class[bottom]) continue;
      const std::string reason = damage_to(static_cast<int>(u), layer);
      if (!reason.empty()) return reason;
    }
    return "";
  }

  std::string damage_to(int value, int layer) const {
    const NetValue& v = values_[value];
    const Layer& maker = net_.layer(v.maker);
    if (maker.type().persistent_tops) {
      return "'" + v.blob + "' is filled by the caller and must stay";
    }
    if (runs_backward_[v.maker] && maker.needs().top_data) {
      return "backward of layer '" + maker.name() + "' reads it";
    }
    if (v.reader < 0 || v.reader == layer) return "";
    const std::string reader = net_.layer(v.reader).name();
    if (v.reader > layer) return "layer '" + reader + "' still reads it";
    if (runs_backward_[v.reader] && net_.layer(v.reader).needs().bottom_data) {
      return "backward of layer '" + reader + "' reads it";
    }
    return "";
  }

  void own(int value) { plan_.data_class[value] = plan_.diff_class[value] = next_class_++; }

  void share(int value, int with, bool diff_too) {
    plan_.data_class[value] = plan_.data_class[with];
    plan_.diff_class[value] = diff_too ? plan_.diff_class[with] : next_class_++;
  }

  const Net& net_;
  const std::vector<NetValue>& values_;
  const std::vector<std::vector<int>>&bottoms_, &tops_;
  const std::vector<bool>& runs_backward_;
  MemoryPlan plan_;
  int next_class_ = 0;
};

}  // namespace

MemoryPlan plan_memory(const Net& net, const std::vector<NetValue>& values,
                       const std::vector<std::vector<int>>& bottom_values,
                       const std::vector<std::vector<int>>& top_values,
                       const std::vector<bool>& runs_backward) {
  return MemoryPlanner(net, values, bottom_values, top_values, runs_backward).plan();
}

}  // namespace kinet
