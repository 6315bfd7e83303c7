// A net: layers in order, the tensors between them, and the arenas that hold its parameters.
//
// Memory: all parameters lie in one block, their gradients in another of the same layout, buffers
// (batch-norm statistics) in a third, so that one optimizer call updates everything and one memory
// region can be registered for a transport. Activations have a tensor each; in-place layers,
// Split, Reshape and Flatten share memory where that damages nothing (net_memory.cc).
// On a device: layers that have a half there run there, those that need none (data, metrics) on the
// host, and the net moves values between the two where they change sides (net_device.cc).
// Parameters, gradients and buffers lie on both sides; the arenas below are those of the host,
// brought up to date when asked for. Outputs are on the host after forward. Thread safety: one
// thread at a time drives a net; two nets in one process share nothing unless a test net is bound
// to a training net.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/net/batch_upload.h"
#include "src/net/device.h"
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
  std::shared_ptr<Device> device;  // null: the CPU
};

class Net {
 public:
  // Builds and allocates everything and fills the parameters. With `training`, layers that have the
  // same name there use its parameters and buffers (shapes checked); `training` must outlive this
  // net and is on the same device. Throws Error with file, line and layer; also when a layer has no
  // half for the device.
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
  // Forward, then backward, for training. On a device nothing waits in between: the loss is read
  // behind backward. On the CPU backward does not run when the loss is not finite; then gradients
  // are of no use in either case.
  std::optional<double> forward_backward(const Context& context, PassHook* hook);
  void zero_gradients();

  // Single layers, for timing and for finding a fault. On a device they wait until it is done.
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
  // The tensor that a name stands for at the end of the net, or null. On a device its values come
  // to the host by data_buffer()->to_host(); what is no output may be left there.
  Tensor* blob(const std::string& name) const;

  // Tops that no layer reads, in order: what a train or test line prints.
  struct Output {
    std::string name;
    Tensor* tensor = nullptr;
    float loss_weight = 0;
  };
  const std::vector<Output>& outputs() const { return outputs_; }

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  int64_t parameter_count() const;                               // without buffers
  size_t parameter_floats() const { return parameter_floats_; }  // of the arena, with its padding
  // The arenas; padding between parameters is zero. For a net bound to a training net: its own
  // only. On a device: up to date when the call returns, and taken to be written; what is written
  // after the next pass has begun is lost.
  std::span<float> parameter_arena();
  std::span<float> gradient_arena();
  std::span<float> buffer_arena();
  // Puts the gradients into memory of others (Buffer::move_to): where a communicator can send them.
  void move_gradients(std::span<float> memory, std::shared_ptr<void> owner);
  // Gradients lie in memory of others from now on (Buffer::change_to): zero_gradients() first.
  void use_gradients(std::span<float> memory, const std::shared_ptr<void>& owner);
  // Parameters and buffers are those that lie in memory of others from now on, laid out like the
  // arenas (Buffer::change_to): weights that were received. Test nets bound to this one follow. On
  // a device, parameters begin to go up at once, in pieces, beside what it does.
  void use_parameters(std::span<float> parameters, std::span<float> buffers,
                      const std::shared_ptr<void>& owner);

  Device* device() const { return device_.get(); }  // null: the CPU
  bool layer_on_device(int layer) const { return device_ != nullptr && on_device_[layer]; }
  // The layer whose forward also does this one's (net_fusion.cc); -1: none, it runs by itself.
  int fused_into(int layer) const { return fused_into_[layer]; }
  // All parameters and buffers that its layers use come to the host, to be read there, or (edit) to
  // be written through the layers' blobs(). Nothing on the CPU.
  void to_host() const;
  void edit_on_host();
  // For an update there: the device's side of the arenas, up to date; the parameters are taken to
  // be written. Gradients of a device that no layer there has made yet are what the host has.
  // REQUIRES: device()
  float* parameters_on_device();
  const float* gradients_on_device();
  // Floats [from, to) of the gradients have been changed on the host (sums over workers) and go up,
  // beside what the device does; when all have, gradients_on_device() has them there. Not before
  // PassHook::gradients_final has told of them.
  void begin_gradients_up(size_t from, size_t to);
  // All have been begun, or are of no use.
  void gradients_are_up();
  // Takes the buffer arena into `kept`, and back: on the device where it lies there.
  void keep_buffers(Buffer& kept) const;
  void restore_buffers(Buffer& kept);

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
  void reshape_when_changed(int layer);
  void run_backward(const Context& context, int layer);

  // --- net_device.cc
  struct Side;          // what moves before and after a layer, to where the layer runs
  class GradientDrain;  // takes final gradients to the host behind the layers
  struct PendingLoss {
    float weight = 0;
    const float* coming = nullptr;  // in loss_values_: there after the device's synchronize()
    double sum = 0;                 // when nothing is coming
  };
  bool begin_forward(const Context& context, PassHook* hook);
  bool backward_on_device(const Context& context, PassHook* hook);
  void forward_moving(const Context& context, int layer);
  void backward_moving(const Context& context, int layer);
  double read_loss(int layer);
  void start_loss(int layer);
  double finish_losses();
  void begin_next_batches();
  void begin_parameters_up();

  friend class NetBuilder;
  friend class MemoryPlanner;

  std::shared_ptr<Device> device_;  // outlives the layers
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
  std::vector<size_t> saved_floats_;      // workspaces of each layer
  std::vector<bool> on_device_;           // by layer
  std::vector<int> fused_into_;           // by layer
  std::shared_ptr<float[]> loss_values_;  // page-locked: losses on their way to the host
  std::vector<PendingLoss> pending_;
  std::vector<std::unique_ptr<BatchUpload>> uploads_;  // by layer; null: none of its own
};

}  // namespace kinet
