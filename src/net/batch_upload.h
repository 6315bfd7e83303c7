// The batches of one data layer on their way to a device: the next one goes up while layers work on
// the one before.
//
// Memory: each top that layers of the device read has two blocks there, one that layers read and
// one that is being filled; they change places when the next pass begins. Copies read the memory in
// which the batch was made.
//   pass i    exchange: block A has batch i | layers read A ...........................
//   beside    upload of batch i + 1 into B, behind the last layer of pass i - 1 ....
// The layers wait for an upload on the device; the host waits for it only when its memory is needed
// again, a pass later. A batch that was not foreseen (the source was moved) goes up in its turn.
// Thread safety: one thread, that of the net.
#pragma once

#include <memory>
#include <vector>

#include "src/net/batch_feed.h"
#include "src/tensor/tensor.h"

namespace kinet {

class BatchUpload {
 public:
  // A top, and where it is read.
  struct Top {
    Tensor* tensor = nullptr;
    bool on_device = false, on_host = false;
  };
  // All of them outlive this object. Throws when the device has no room for the second blocks.
  BatchUpload(std::shared_ptr<DeviceMemory> device, BatchFeed& feed, std::vector<Top> tops);
  ~BatchUpload();
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  // The forward of the layer: all tops hold the next batch where they are read.
  void forward();
  // Begins the upload of the batch after it, when it has been made already. After the layers of the
  // pass have been asked for; again later when there was none.
  void begin_next();

  size_t device_floats() const;  // of the second blocks

 private:
  struct Upload {
    BatchFeed::Batch batch;  // whose memory is read
    std::vector<uint64_t> tickets;
  };
  void take_over();
  void upload_now(const BatchFeed::Batch& batch);
  void mark_again();
  void finish();

  const std::shared_ptr<DeviceMemory> device_;
  BatchFeed& feed_;
  std::vector<Top> tops_;
  std::vector<std::unique_ptr<Buffer>> second_;  // by top
  uint64_t free_from_ = 0;       // ticket: nothing behind it reads the second blocks
  Upload coming_;                // into the second blocks
  std::vector<Upload> started_;  // whose memory may still be read
};

}  // namespace kinet
