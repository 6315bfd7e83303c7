// What a pass over a net tells its caller, and asks, while it runs.
//
// Thread safety: called on the thread that runs the pass, between two layers.
#pragma once

#include <cstddef>

namespace kinet {

class PassHook {
 public:
  virtual ~PassHook() = default;

  // Asked before every layer; false ends the pass there. The next pass starts as if this one had
  // not been, but for the data that were read and the statistics that forward has updated.
  virtual bool go_on() { return true; }

  // Backward has made the floats [from, to) of the gradient arena final: no layer that is still to
  // run adds to them. Over a whole backward pass every float is told once, padding and parameters
  // that get no gradient included; from the end of the arena towards its start, as layers are run,
  // except where layers share parameters.
  // On a device the range has been copied to the host, while the layers before it were running.
  virtual void gradients_final(size_t /*from*/, size_t /*to*/) {}
  // false: nobody looks at the gradients before the pass is over, so none need leave a device.
  virtual bool wants_gradients() const { return true; }
};

// For all micro-batches but the last: the gradients are not final yet.
class GoOnOnly : public PassHook {
 public:
  explicit GoOnOnly(PassHook* hook) : hook_(hook) {}
  bool go_on() override { return hook_ == nullptr || hook_->go_on(); }
  bool wants_gradients() const override { return false; }

 private:
  PassHook* hook_;
};

}  // namespace kinet
