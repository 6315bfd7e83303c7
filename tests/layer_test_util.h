// One layer outside a net, for tests: parsed from prototxt text, set up, fed and run.
//
//   OneLayer l("layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }", {{2, 3}});
//   l.set_bottom(0, {-1, 2, ...});
//   l.forward();
//   l.top(0).data()
//
// It stands in for the net: tops share memory as LayerType says, the mask asks for every gradient
// that the layer can give, and the loss weight is put into a loss top's gradient by set_top_diff.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/net/device.h"
#include "src/net/layer.h"

namespace kinet {

class OneLayer {
 public:
  struct Options {
    Phase phase = Phase::kTrain;
    int threads = 1;
    uint64_t seed = 1;
    bool in_place = false;  // top 0 is bottom 0
    // Where the layer runs; null: on the host. Values are given and read on the host as ever:
    // forward() and backward() move them.
    std::shared_ptr<Device> device = nullptr;
  };

  // Throws Error as a net would: for syntax, unknown fields, and what set_up refuses.
  OneLayer(const std::string& text, const std::vector<Shape>& bottoms);
  OneLayer(const std::string& text, const std::vector<Shape>& bottoms, const Options& options);

  Layer& layer() { return *layer_; }
  Context& context() { return context_; }
  BackwardMask& mask() { return mask_; }
  int bottom_count() const { return static_cast<int>(bottoms_.size()); }
  int top_count() const { return static_cast<int>(tops_.size()); }
  Tensor& bottom(int i) { return *bottoms_[i]; }
  Tensor& top(int i) { return *tops_[i]; }
  Tensor& blob(int i) { return layer_->blobs()[i]; }

  void set_bottom(int i, const std::vector<float>& values);
  void set_blob(int i, const std::vector<float>& values);
  void set_top_diff(int i, const std::vector<float>& values);
  // Gaussian values, from a stream that depends on `stream` only.
  void randomize(Tensor& tensor, uint64_t stream, bool diff = false);

  // New bottom shapes; the tops follow.
  void reshape(const std::vector<Shape>& bottoms);
  void forward();
  void backward();

  std::vector<float> top_values(int i);
  std::vector<float> bottom_values(int i);
  std::vector<float> bottom_diffs(int i);
  std::vector<float> blob_diffs(int i);

 private:
  void make_blobs();
  void make_tops(const std::vector<Shape>& shapes);
  void attach(Tensor& tensor);

  ParamNode root_;
  const LayerType* type_ = nullptr;
  Options options_;
  Context context_;
  std::shared_ptr<Buffer> scratch_ = std::make_shared<Buffer>();
  std::unique_ptr<Layer> layer_;
  std::vector<std::unique_ptr<Tensor>> bottoms_, tops_;
  std::vector<Tensor*> bottom_pointers_, top_pointers_;
  BackwardMask mask_;
};

// n values in [-2, 2] in a repeatable random order, one grid step (4 / n) apart from each other and
// a fifth of it from 0 and from the values of the two next streams: no ties for max, no kink at 0.
std::vector<float> distinct_values(int64_t n, uint64_t stream);

std::vector<float> data_of(const Tensor& tensor);
std::vector<float> diff_of(const Tensor& tensor);

// "" when |a - b| <= tolerance * max(|b|, rms of b) for every element, else where and by how much.
std::string compare(const std::vector<float>& a, const std::vector<double>& b, double tolerance);
std::string compare(const std::vector<float>& a, const std::vector<float>& b, double tolerance);

}  // namespace kinet
