// Tensor (which Caffe calls Blob): float32 data and, where wanted, the gradient ("diff") of the
// same shape.
//
// On a device (src/tensor/device_memory.h) a buffer has two sides, host and device. data() and
// diff() are always host pointers, device_data() and device_diff() device pointers; neither moves
// anything. Which side is up to date is kept by the Buffer and changed by explicit calls, which the
// net makes between layers: inside a layer on the device the device's side of all it may read is up
// to date.
//
// Ownership: a Tensor holds shares of its buffers. Views (parameters in an arena, in-place layers,
// Split and Reshape tops) share a buffer at an offset; a pointer is always resolved through the
// buffer, so that weights can be double-buffered. Invariant: data() and diff() stay valid until
// the next resize that grows the buffer. Thread safety: none; one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/tensor/device_memory.h"
#include "src/tensor/shape.h"

namespace kinet {

// A block of floats, 64-byte aligned, zeroed when allocated; it grows and never shrinks.
//
// With a device attached, either side is allocated when it is first asked for: activations that
// only kernels touch take no host memory. Exactly the sides that fresh() names hold the block's
// values. Invariant: a side that was never allocated is not the only fresh one.
class Buffer {
 public:
  enum class Fresh { kBoth, kHost, kDevice };

  Buffer() = default;
  explicit Buffer(size_t floats) { reserve(floats); }
  ~Buffer() { release_device(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Makes room for `floats`; contents are kept only when no growth is needed. Throws a set-up Error
  // at once when that is more than the machine's memory, a run-time one when none is left.
  void reserve(size_t floats);
  // Moves to memory of others (an arena whose bytes travel), with what it holds; the rest of
  // `memory` keeps its values. `owner` keeps the memory alive. REQUIRES: 64-byte aligned, no
  // smaller than capacity(). All views follow.
  void move_to(std::span<float> memory, std::shared_ptr<void> owner);
  // Changes over to memory of others as it is: its contents are what all views see from now on.
  // `owner` keeps the memory alive. REQUIRES: as move_to()
  void change_to(std::span<float> memory, std::shared_ptr<void> owner);
  float* data() {
    if (data_ == nullptr) allocate_host();
    return data_.get();
  }
  const float* data() const { return const_cast<Buffer*>(this)->data(); }
  size_t capacity() const { return capacity_; }

  // --- the device's side. REQUIRES on_device() for what names or writes it; to_host() is nothing
  // without
  // Gives the block a side there. REQUIRES: no device yet
  void attach(std::shared_ptr<DeviceMemory> device);
  bool on_device() const { return device_ != nullptr; }
  float* device_data();
  Fresh fresh() const { return fresh_; }
  // Somebody writes (or is about to write) this side: the other one is out of date. Of a block
  // that is written in part only, the side must have been up to date before.
  void written_on_host() { fresh_ = Fresh::kHost; }
  void written_on_device() { fresh_ = Fresh::kDevice; }
  // All parts of the block have been copied one by one.
  void now_equal() { fresh_ = Fresh::kBoth; }
  // Bring one side up to date; nothing when it is. to_host() has the values when it returns;
  // begin_to_host() after the device's synchronize().
  void to_device();
  // Of what was begun in pieces, those up to the one that holds float `end` - 1, and what was begun
  // before them.
  void to_device(size_t end);
  void to_host();
  void begin_to_host();
  // Floats [from, to) of the host's side go up beside what the device does; what is asked for
  // behind to_device() sees them. fresh() stays: when all have been begun the sides are
  // now_equal(). The host's side must not be written before wait_pieces().
  void begin_to_device(size_t from, size_t to);
  void wait_pieces();
  // Changes places with what `other` holds on the device, and takes over its values; the host's
  // side keeps its own. REQUIRES: both on the same device, of the same capacity
  void exchange_on_device(Buffer& other);

 private:
  struct Piece {
    size_t from;
    uint64_t ticket;
  };
  void allocate_host();
  void release_device() noexcept;
  void follow_pieces(size_t end);

  std::shared_ptr<float[]> data_;
  size_t capacity_ = 0;
  std::shared_ptr<DeviceMemory> device_;
  float* device_data_ = nullptr;
  size_t device_capacity_ = 0;
  Fresh fresh_ = Fresh::kBoth;
  std::vector<Piece> pieces_;  // that go up, in order
  size_t followed_ = 0;        // of these, how many the device's order is behind
};

class Tensor {
 public:
  Tensor() = default;
  // Owns fresh buffers of that shape; `with_diff` adds the gradient.
  explicit Tensor(const Shape& shape, bool with_diff = true);
  // A view of `shape` at `offset` floats into shared buffers; diff may be null.
  Tensor(const Shape& shape, std::shared_ptr<Buffer> data, std::shared_ptr<Buffer> diff,
         size_t offset = 0);

  // A view into a block that is reserved later (parameters, while an arena is being laid out).
  static Tensor view(const Shape& shape, std::shared_ptr<Buffer> data, std::shared_ptr<Buffer> diff,
                     size_t offset);

  // New shape; buffers grow when they must (contents are then lost). A view at an offset may not
  // grow: its buffer belongs to others too.
  void resize(const Shape& shape);

  const Shape& shape() const { return shape_; }
  int64_t count() const { return count_; }
  float* data() { return data_->data() + offset_; }
  const float* data() const { return data_->data() + offset_; }
  // REQUIRES: has_diff()
  float* diff() { return diff_->data() + offset_; }
  const float* diff() const { return diff_->data() + offset_; }
  bool has_diff() const { return diff_ != nullptr; }
  // REQUIRES: the buffers have a device
  float* device_data() { return data_->device_data() + offset_; }
  const float* device_data() const { return data_->device_data() + offset_; }
  float* device_diff() { return diff_->device_data() + offset_; }
  const float* device_diff() const { return diff_->device_data() + offset_; }

  const std::shared_ptr<Buffer>& data_buffer() const { return data_; }
  const std::shared_ptr<Buffer>& diff_buffer() const { return diff_; }
  size_t offset() const { return offset_; }

 private:
  Shape shape_;
  int64_t count_ = 0;
  std::shared_ptr<Buffer> data_, diff_;
  size_t offset_ = 0;
};

}  // namespace kinet
