// The batches of a data layer as they were made, without a copy into the layer's tops: for a net on
// a device, which brings them there from where they lie. Such a layer is a BatchFeed, too.
//
// Thread safety: one thread, that of the net.
#pragma once

#include <memory>
#include <vector>

#include "src/tensor/device_memory.h"
#include "src/tensor/shape.h"

namespace kinet {

class BatchFeed {
 public:
  virtual ~BatchFeed() = default;

  struct Batch {
    std::vector<Shape> shapes;          // of the tops
    std::vector<const float*> values;   // of the tops, on the host
    std::shared_ptr<const void> owner;  // values stay as long as it is held
  };
  // In place of the layer's forward(): waits for the next batch and moves past it. Throws as that.
  virtual Batch take() = 0;
  // What take() will give (the same owner) unless the source is moved before, if it has been made
  // already; else nothing, with a null owner. Waits for nothing.
  virtual Batch peek() = 0;
  // Batches are made in memory that the device reaches at full speed. Before the first forward.
  virtual void lie_in(std::shared_ptr<DeviceMemory> device) = 0;
};

}  // namespace kinet
