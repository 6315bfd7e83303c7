// Builds a Net: makes the layers, decides who gets gradients, lays out memory, binds parameters.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/net/net.h"

namespace kinet {

// One version of a blob. After split insertion each value is read by at most one layer.
struct NetValue {
  std::string blob;
  int maker = -1, top = -1;      // layer and top that make it
  int reader = -1, bottom = -1;  // layer and bottom that read it; -1: nobody
  Shape shape;
  bool shape_known = false;     // its maker could be set up
  bool wants_gradient = false;  // something that learns lies upstream
  bool under_loss = false;      // a loss lies downstream
  bool has_diff = false;        // a gradient is really computed
};

struct MemoryPlan;

class NetBuilder {
 public:
  NetBuilder(Net& net, const NetOptions& options, Net* training)
      : net_(net), options_(options), training_(training) {}
  void build();

 private:
  void trace_values();
  void make_layers();
  void make_layer(int layer);
  std::unique_ptr<Layer> make_half(int layer);
  std::vector<Shape> set_up(int layer, Layer& made, const std::vector<Shape>& bottoms,
                            WorkspacePlan& plan);
  bool learns() const;
  void decide_gradients();
  void decide_downwards(int layer);
  void decide_upwards(int layer);
  int relu_behind(int layer, const MemoryPlan& plan) const;
  void fuse_relus(const MemoryPlan& plan);
  void check_fits(const MemoryPlan& plan);
  void make_batch_uploads();
  void allocate_tensors(const MemoryPlan& plan);
  std::shared_ptr<Buffer> new_buffer() const;
  void bind_parameters();
  void bind_layer(int layer);
  Tensor bind_blob(int layer, int blob);
  Tensor bind_to_training(int layer, int blob, const Layer& source);
  Tensor share_by_name(int layer, int blob, const ParamSpec& spec, int owner);
  void plan_final_ranges();
  void fill_parameters();
  void list_outputs();

  float loss_weight(int layer, int top) const { return net_.loss_weights_[layer][top]; }
  [[noreturn]] void fail_layer(int layer, const std::string& message) const;

  Net& net_;
  const NetOptions& options_;
  Net* training_;
  std::vector<NetValue> values_;
  std::vector<std::vector<int>> bottom_values_, top_values_;
  std::set<std::string> owners_;           // names of layers with parameters
  uint64_t top_floats_ = 0;                // of all tops and their gradients
  std::map<std::string, int> shared_;      // parameter name -> index in net_.parameters_
  std::vector<std::vector<int>> info_of_;  // layer, blob -> index in parameters_, -1: not ours
};

// Which values may lie in the same memory (net_memory.cc). Classes are small integers.
struct MemoryPlan {
  std::vector<int> data_class, diff_class;  // of each value
  std::vector<std::string> notes;           // copies made for in-place layers
};

MemoryPlan plan_memory(const Net& net, const std::vector<NetValue>& values,
                       const std::vector<std::vector<int>>& bottom_values,
                       const std::vector<std::vector<int>>& top_values,
                       const std::vector<bool>& runs_backward);

}  // namespace kinet
