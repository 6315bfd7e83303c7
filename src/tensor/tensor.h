// Tensor (which Caffe calls Blob): float32 data and, where wanted, the gradient ("diff") of the
// same shape, on one device.
//
// Ownership: a Tensor holds shares of its buffers. Views (parameters in an arena, in-place layers,
// Split and Reshape tops) share a buffer at an offset; a pointer is always resolved through the
// buffer, so that weights can be double-buffered. Invariant: data() and diff() stay valid until
// the next resize that grows the buffer. Thread safety: none; one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "src/tensor/shape.h"

namespace kinet {

// A block of floats, 64-byte aligned, zeroed when allocated; it grows and never shrinks.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t floats) { reserve(floats); }
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
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t capacity() const { return capacity_; }

 private:
  std::shared_ptr<float[]> data_;
  size_t capacity_ = 0;
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
