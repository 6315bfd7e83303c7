// Times the two passes of one layer by themselves, on the CPU or on a device.
//
// A pass is called many times in a row and waited for once, so that the time of a call and of
// waiting does not count where the device has more to do than that; that is how layers follow each
// other in a net. Small tensors stay in the caches meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/cli/layers_to_time.h"
#include "src/net/net.h"

namespace kinet {

struct TimerOptions {
  int64_t batch = 1;
  int repeats = 7;               // the median of these counts
  double seconds = 0.02;         // that a repeat takes at least
  std::string math = "FLOAT32";  // gpu_math of layers that have it
  int threads = 1;
  std::shared_ptr<Device> device;  // null: the CPU
};

struct PassTime {
  double median = 0, least = 0;  // seconds of one pass
  double flops = 0;              // a multiply-add counts as two; 0: no products
  double bytes = 0;  // of the tensors that the pass must read or write, each counted once
};

class LayerTimer {
 public:
  // Throws Error when the layer is not one, or there is not enough memory.
  LayerTimer(const LayerToTime& layer, const TimerOptions& options);

  PassTime forward();
  PassTime backward();         // all gradients that the layer can give. REQUIRES: forward() ran
  std::string shapes() const;  // "32x96x27x27 -> 32x256x27x27"

 private:
  PassTime time(const std::function<void()>& pass) const;
  double forward_bytes() const;
  double backward_bytes() const;
  double backward_products() const;

  const TimerOptions options_;
  std::unique_ptr<Net> net_;
  Context context_;
  int index_ = 0;  // of the layer in the net
};

// What products and copies reach on this many threads here, measured: the limits of a CPU.
DeviceLimits measure_cpu_limits(int threads);

}  // namespace kinet
