// A net: layers in order, the tensors between them, and the arenas that hold its parameters.
//
// Memory: all parameters lie in one block, their gradients in another of the same layout, buffers
// (batch-norm statistics) in a third, so that one optimizer call updates everything and one memory
// region can be registered for a transport. Activations have a tensor each; in-place layers,
// Split, Reshape and Flatten share memory where that damages nothing (net_memory.cc).
// Thread safety: one thread at a time drives a net; two nets in one process share nothing unless a
// test net is bound to a training net.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/net/net_spec.h"
#include "src/net/pass_hook.h"

namespace kinet {

// One learnable parameter or buffer, in Caffe's order (layer by layer, blob by blob, shared ones
// once, where their owner stands).
struct ParameterInfo {
  std::string name;   // "conv1[0]", or the name it is shared by
  std::string layer;  // the owner
  int blob = 0;       // index within the owner's blobs
  Shape shape;
  bool is_buffer = false;
  size_t offset = 0;  // floats from the start of its arena
  size_t count = 0;
  float lr_mult = 1, decay_mult = 1;  // 0 for buffers
};

struct NetOptions {
  NetState state;
  uint64_t seed = 1;
  int threads = 1;
};

class Net {
 public:
  // Builds and allocates everything and fills the parameters. With `training`, layers that have the
  // same name there use its parameters and buffers (shapes checked); `training` must outlive this
  // net. Throws Error with file, line and layer.
  Net(const ParamNode& net, const NetOptions& options, Net* training = nullptr);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  // One pass; returns the weighted sum of the losses. Shapes may change from pass to pass.
  double forward(const Context& context);
  // REQUIRES: forward ran. Adds to the parameter gradients (clear them with zero_gradients).
  void backward(const Context& context);
  // The same under the eyes of `hook` (may be null). No loss, or false: it has ended the pass.
  std::optional<double> forward(const Context& context, PassHook* hook);
  bool backward(const Context& context, PassHook* hook);
  void zero_gradients();

  // Single layers, for timing and for finding a fault.
  double forward_layer(const Context& context, int layer);  // its share of the loss
  void backward_layer(const Context& context, int layer);
  bool layer_runs_backward(int layer) const;
  const BackwardMask& backward_mask(int layer) const { return masks_[layer]; }

  // Runs forward and backward again, looking at every result; names the first layer and blob that
  // is not finite, or "" when everything is finite. Put the data back to the same batch first.
  std::string find_non_finite(const Context& context);

  const std::string& name() const { return spec_.name; }
  const NetSpec& spec() const { return spec_; }
  int layer_count() const { return static_cast<int>(layers_.size()); }
  Layer& layer(int index) { return *layers_[index]; }
  const Layer& layer(int index) const { return *layers_[index]; }
  int layer_index(const std::string& name) const;  // -1: none of that name
  const std::vector<Tensor*>& bottoms(int layer) const { return bottoms_[layer]; }
  const std::vector<Tensor*>& tops(int layer) const { return tops_[layer]; }
  // The tensor that a name stands for at the end of the net, or null.
  Tensor* blob(const std::string& name) const;

  // Tops that no layer reads, in order: what a train or test line prints.
  struct Output {
    std::string name;
    Tensor* tensor = nullptr;
    float loss_weight = 0;
  };
  const std::vector<Output>& outputs() const { return outputs_; }

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  int64_t parameter_count() const;  // without buffers
  // The arenas; padding between parameters is zero. For a net bound to a training net: its own
  // only.
  std::span<float> parameter_arena();
  std::span<float> gradient_arena();
  std::span<float> buffer_arena();
  // Puts the gradients into memory of others (Buffer::move_to): where a communicator can send them.
  void move_gradients(std::span<float> memory, std::shared_ptr<void> owner);
  // Parameters and buffers are those that lie in memory of others from now on, laid out like the
  // arenas (Buffer::change_to): weights that were received. Test nets bound to this one follow.
  void use_parameters(std::span<float> parameters, std::span<float> buffers,
                      const std::shared_ptr<void>& owner);

  const std::vector<BatchSource*>& batch_sources() const { return sources_; }
  // What was decided and a user may want to know: copies made for in-place layers, and the like.
  const std::vector<std::string>& notes() const { return notes_; }
  uint64_t activation_bytes() const;  // tops, gradients and workspaces
  double macs() const;                // of one forward pass

 private:
  struct FloatRange {
    size_t from = 0, to = 0;
  };
  void reshape_layer(int layer);

  friend class NetBuilder;
  friend class MemoryPlanner;

  NetSpec spec_;
  int threads_ = 1;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::vector<Tensor*>> bottoms_, tops_;
  std::vector<std::vector<Shape>> seen_;          // bottom shapes at the last reshape of each layer
  std::vector<std::unique_ptr<Tensor>> tensors_;  // one a value
  std::map<std::string, Tensor*> blobs_;
  std::vector<std::vector<float>> loss_weights_;  // for each layer and top
  std::vector<BackwardMask> masks_;
  std::vector<bool> runs_backward_;
  std::vector<std::vector<bool>> top_has_gradient_;  // false: its diff counts as zero
  std::vector<Output> outputs_;
  std::vector<ParameterInfo> parameters_;
  std::shared_ptr<Buffer> parameter_data_, parameter_diff_, buffer_data_, scratch_;
  size_t parameter_floats_ = 0, buffer_floats_ = 0;
  std::vector<std::vector<FloatRange>> final_after_;  // by layer: of the gradient arena
  std::vector<BatchSource*> sources_;
  std::vector<std::string> notes_;
  std::vector<size_t> saved_floats_;  // workspaces of each layer
};

}  // namespace kinet
