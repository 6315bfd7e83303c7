// The mini-batch of the last forward and backward pass, looked at along its gradient: what a
// learning-rate search asks (src/sync/lr_search.h), answered by a net.
//
// Equation:  d = scale * lr_mult * gradient,  loss_at(rate) = loss(w - rate d)
// A trial runs forward alone: gradients are read, never written, so they may be on their way to
// others meanwhile.
// Invariants: after close() (or the destructor) weights, buffers, data positions and the
// net's outputs are as they were, bit for bit. The same pass number is used, so masks of Dropout
// are the same.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "src/net/net.h"
#include "src/optim/optimizer.h"
#include "src/sync/lr_search.h"

namespace kinet {

class NetProbe : public LrProbe {
 public:
  struct Batch {
    double loss = 0;                 // of the passes that made the gradient
    std::vector<Context> passes;     // one for each micro-batch
    std::vector<int64_t> positions;  // of the data before the first of them
    float scale = 1;                 // makes the mean of the gradient arena's sum
  };
  NetProbe(Net& net, std::span<const ParameterSegment> segments, std::span<const float> last_update,
           Batch batch);
  ~NetProbe() override;
  NetProbe(const NetProbe&) = delete;
  NetProbe& operator=(const NetProbe&) = delete;

  double loss() const override { return batch_.loss; }
  double slope() const override;
  double loss_at(double rate) override;
  double alignment() const override;
  void close();
  int64_t passes() const { return passes_; }  // that were asked for so far

 private:
  void open();
  void move(double rate);
  double forward(const Context& context);

  Net& net_;
  const std::span<const ParameterSegment> segments_;
  const std::span<const float> last_update_;
  const Batch batch_;
  int64_t passes_ = 0;
  bool open_ = false, reread_ = false;
  std::vector<bool> skipped_;  // layers whose tops still hold the batch
  std::vector<float> weights_, buffers_;
  std::vector<std::vector<float>> outputs_;
};

}  // namespace kinet
