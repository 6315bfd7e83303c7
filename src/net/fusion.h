// Two layers as one kernel: what halves of layers on a device may offer beside Layer. The net asks
// for it while it is built (net_fusion.cc).
#pragma once

namespace kinet {

// A layer that can apply max(x, 0) as it stores its only top.
class CanEndWithRelu {
 public:
  virtual ~CanEndWithRelu() = default;
  virtual void end_with_relu() = 0;  // from the next forward on
};

// A layer that may be y = max(x, 0).
class MayBeRelu {
 public:
  virtual ~MayBeRelu() = default;
  virtual bool is_relu() const = 0;  // it is, and does nothing else
};

}  // namespace kinet
