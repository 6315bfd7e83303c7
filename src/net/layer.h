// The layer contract. A layer is one header and one source in layers/ that registers itself.
//
// Life of a layer:
//   set_up(bottom shapes)   once: read the fields, declare parameters and buffers;
//   reshape(bottom shapes)  whenever they change: give the top shapes, request workspaces;
//   forward / backward      once a pass.
// The net owns all memory: tops, parameters (in arenas), buffers and workspaces.
// Thread safety: one thread at a time for one layer; different layers share nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/context.h"
#include "src/base/registry.h"
#include "src/net/filler.h"
#include "src/prototxt/fields.h"
#include "src/tensor/tensor.h"

namespace kinet {

class Layer;

// How a layer's tops lie in memory, beyond being tensors of their own.
enum class TopMemory {
  kOwn,
  kSharesData,         // top data is the bottom's data (Split): forward has nothing to copy
  kSharesDataAndDiff,  // top is the bottom in another shape (Reshape, Flatten): nothing to do at
                       // all
};

// What a registered type tells about itself; declared beside the class by `static LayerType
// describe()`.
struct LayerType {
  std::string type;                      // "Convolution"
  std::string help;                      // one line: what it computes
  std::vector<Field> fields;             // beyond the common ones: usually one message_field(...)
  int min_bottoms = 1, max_bottoms = 1;  // max -1: any number
  int min_tops = 1, max_tops = 1;
  bool same_count = false;        // one top for each bottom (Convolution, Pooling without mask)
  bool is_loss = false;           // first top: loss weight 1 by default, made when not named
  bool is_data = false;           // makes its tops itself (no bottoms)
  bool in_place = false;          // may run with top = bottom when nobody needs the old content
  bool refuses_in_place = false;  // Caffe refuses top = bottom: so do we
  bool persistent_tops = false;   // tops are not rewritten by every forward (Input)
  TopMemory top_memory = TopMemory::kOwn;
  bool host_ok = false;            // data, shape-only and metric layers: need no CUDA half
  std::vector<int> label_bottoms;  // never receive a gradient
  std::unique_ptr<Layer> (*make)() = nullptr;  // set by KINET_REGISTER_LAYER
};

// What backward reads besides top gradients, parameters and workspaces.
struct BackwardNeeds {
  bool bottom_data = false;
  bool top_data = false;
};

// A block that reshape() asked for. saved: kept from forward to backward; temporary: shared by all
// layers of a net, its contents are lost when the layer returns.
class Workspace {
 public:
  float* data() { return buffer_ ? buffer_->data() : nullptr; }
  // For a layer on a device: the same block there. The two sides are never copied to each other.
  float* device_data() { return buffer_ ? buffer_->device_data() : nullptr; }
  size_t size() const { return size_; }

 private:
  friend class WorkspacePlan;
  std::shared_ptr<Buffer> buffer_;
  size_t size_ = 0;
};

class WorkspacePlan {
 public:
  // `device`: of a layer that runs there, else null.
  explicit WorkspacePlan(std::shared_ptr<Buffer> scratch, int threads = 1,
                         std::shared_ptr<DeviceMemory> device = nullptr)
      : scratch_(std::move(scratch)), threads_(threads), device_(std::move(device)) {}
  // Threads that forward and backward may use at most: for workspaces with a part for each.
  int threads() const { return threads_; }
  void saved(Workspace& workspace, size_t floats);
  // At most one temporary a layer: it always begins at the start of the net's scratch block.
  void temporary(Workspace& workspace, size_t floats);
  size_t saved_floats() const { return saved_floats_; }

 private:
  std::shared_ptr<Buffer> scratch_;
  int threads_;
  std::shared_ptr<DeviceMemory> device_;
  size_t saved_floats_ = 0;
};

// One parameter or buffer, as its layer declares it. Buffers (batch-norm statistics) have no
// gradient, are not touched by the solver, and are saved beside the parameters in Caffe's order.
struct ParameterDecl {
  Shape shape;
  FillerSpec filler;
  bool is_buffer = false;
};

// Which gradients backward must make.
struct BackwardMask {
  std::vector<bool> bottom;
  std::vector<bool> blob;  // parameters, in blobs() order
};

using Tensors = std::span<Tensor* const>;

// Random-access source behind a data layer: lets the solver place and bound a pass.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual int64_t items() const = 0;       // in one epoch
  virtual int64_t batch_size() const = 0;  // as the file says
  // Items handed out since the run began (epoch * items + offset); the next batch starts there.
  virtual int64_t position() const = 0;
  virtual void seek(int64_t position) = 0;
  // Of `workers` workers that read together, this is number `worker`: of every workers * batch_size
  // items it hands out its own batch_size, and position() counts those of all. So all workers stand
  // at the same position, and together they read what one would with a batch that many times
  // larger. With stop_at_epoch_end these are the next `workers` batches, the last of them short.
  virtual void partition(int64_t worker, int64_t workers) = 0;
  // true: the batch that reaches the end of an epoch is short and the next one starts at item 0 of
  // the next epoch; false (default): batches are always full and run over the end.
  virtual void stop_at_epoch_end(bool stop) = 0;
  virtual std::string describe() const = 0;  // "60,000 images 1x28x28 from ..."
  // Items left out so far because they could not be read (policy skip).
  virtual int64_t skipped() const { return 0; }
  // Reads every label; throws Error naming the first item whose label is not in [0, classes).
  virtual void check_labels(int64_t classes) const { (void)classes; }
};

class Layer {
 public:
  virtual ~Layer() = default;
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // The CUDA half of a layer is a subclass that overrides forward and backward, and reshape where
  // its workspaces differ (cuda/layer.h).

  // Called once by the net, before set_up. node and type outlive the layer.
  void configure(std::string name, Phase phase, const ParamNode* node, const LayerType* type,
                 uint64_t seed, int tops);

  virtual void set_up(const std::vector<Shape>& bottoms) { (void)bottoms; }
  virtual std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) = 0;
  // May resize its tops when their shape depends on the data (last short batch, Filter).
  virtual void forward(const Context& context, Tensors bottoms, Tensors tops) = 0;
  // ADDS to parameter gradients, OVERWRITES the bottom gradients that the mask asks for.
  virtual void backward(const Context& context, Tensors tops, Tensors bottoms,
                        const BackwardMask& mask);

  virtual BackwardNeeds needs() const { return {}; }
  virtual bool can_propagate(int bottom) const;  // default: not to label bottoms
  // Whether this instance may run in place (the type allows it; fields may forbid it).
  virtual bool may_run_in_place() const { return type_->in_place; }
  virtual double macs() const { return 0; }  // multiply-accumulates of one forward pass
  virtual BatchSource* batch_source() { return nullptr; }
  virtual std::string summary() const { return ""; }  // the modes in use: "normalization VALID"
  // Classes a label bottom may name (0 = not a matter of classes); for `kinet check`.
  virtual int64_t label_classes() const { return 0; }

  const std::string& name() const { return name_; }
  const LayerType& type() const { return *type_; }
  Phase phase() const { return phase_; }
  const std::vector<ParameterDecl>& declared() const { return declared_; }
  // Parameters and buffers in Caffe's order; bound by the net after set_up.
  std::vector<Tensor>& blobs() { return blobs_; }
  const std::vector<Tensor>& blobs() const { return blobs_; }

 protected:
  // The message `field` ("convolution_param") of this layer, as declared in describe().fields.
  Params params(const std::string& field) const;
  Position where() const { return node_->where; }
  // "file:line:column: layer 'conv1' (Convolution): message"
  [[noreturn]] void fail_here(const std::string& message) const;
  void declare_parameter(Shape shape, FillerSpec filler);
  void declare_buffer(Shape shape, float value);
  Rng rng(RngPurpose purpose, uint64_t b = 0, uint64_t c = 0) const;  // a = hash of the name
  uint64_t seed() const { return seed_; }
  int top_count() const { return top_count_; }

 private:
  std::string name_;
  Phase phase_ = Phase::kTrain;
  const ParamNode* node_ = nullptr;
  const LayerType* type_ = nullptr;
  uint64_t seed_ = 0;
  int top_count_ = 0;
  std::vector<ParameterDecl> declared_;
  std::vector<Tensor> blobs_;
};

using LayerRegistry = Registry<LayerType>;

// Registers Class under Class::describe().type. REQUIRES: a namespace-scope use in the .cc file.
template <class Class>
bool register_layer() {
  LayerType type = Class::describe();
  type.make = []() -> std::unique_ptr<Layer> { return std::make_unique<Class>(); };
  const std::string name = type.type;
  return LayerRegistry::instance().add(name, std::move(type));
}

#define KINET_REGISTER_LAYER(Class) \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_layer<Class>()

}  // namespace kinet
