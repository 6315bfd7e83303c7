#include "src/tensor/tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "src/base/check.h"
#include "src/base/memory.h"
#include "src/base/text.h"

namespace kinet {

namespace {
constexpr size_t kAlignment = 64;  // bytes: one cache line, one AVX-512 register

std::shared_ptr<float[]> allocate_zeroed(size_t floats) {
  const size_t bytes = (floats * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  auto* p = static_cast<float*>(std::aligned_alloc(kAlignment, bytes));
  if (p == nullptr) fail_runtime("out of memory: {} asked for one tensor", human_bytes(bytes));
  std::memset(p, 0, bytes);
  return {p, [](float* memory) { std::free(memory); }};
}

}  // namespace

void Buffer::reserve(size_t floats) {
  if (floats <= capacity_) return;
  if (device_ != nullptr) {  // both sides are zeros, made when somebody asks for them
    data_.reset();
    release_device();
    fresh_ = Fresh::kBoth;
  } else {
    check_memory(floats, "one tensor");
    data_ = allocate_zeroed(floats);
  }
  capacity_ = floats;
}

void Buffer::move_to(std::span<float> memory, std::shared_ptr<void> owner) {
  KINET_CHECK(memory.size() >= capacity_, "a buffer of {} floats does not fit into {}", capacity_,
              memory.size());
  wait_pieces();
  if (capacity_ > 0) std::memcpy(memory.data(), data(), capacity_ * sizeof(float));
  data_ = std::shared_ptr<float[]>(std::move(owner), memory.data());
  capacity_ = memory.size();
}

void Buffer::change_to(std::span<float> memory, std::shared_ptr<void> owner) {
  KINET_CHECK(memory.size() >= capacity_ || data_ == nullptr,
              "a buffer of {} floats cannot become one of {}", capacity_, memory.size());
  wait_pieces();
  data_ = std::shared_ptr<float[]>(std::move(owner), memory.data());
  if (device_ != nullptr) fresh_ = Fresh::kHost;
}

void Buffer::allocate_host() {
  if (capacity_ > 0 && device_ != nullptr) data_ = device_->allocate_host(capacity_);
}

void Buffer::attach(std::shared_ptr<DeviceMemory> device) {
  KINET_CHECK(device_ == nullptr, "a buffer cannot lie on two devices");
  device_ = std::move(device);
  if (data_ != nullptr) fresh_ = Fresh::kHost;
}

// Grows when move_to() has made the host's side larger; the values come from there.
float* Buffer::device_data() {
  if (device_data_ == nullptr && capacity_ > 0) {
    device_data_ = device_->allocate(capacity_);
    device_capacity_ = capacity_;
  }
  return device_data_;
}

void Buffer::release_device() noexcept {
  try {
    wait_pieces();
  } catch (const Error&) {  // the device has failed: the next call on it says so
  }
  if (device_data_ != nullptr) device_->release(device_data_);
  device_data_ = nullptr;
}

void Buffer::to_device() { to_device(device_capacity_); }

void Buffer::to_device(size_t end) {
  follow_pieces(end);
  if (fresh_ != Fresh::kHost) return;
  if (capacity_ > 0) {
    float* const device = device_data();
    device_->upload(device, data(), device_capacity_);
  }
  fresh_ = Fresh::kBoth;
}

// Pieces go up one after the other: behind one is behind all that were begun before it.
void Buffer::follow_pieces(size_t end) {
  size_t last = pieces_.size();
  while (last > followed_ && pieces_[last - 1].from >= end) --last;
  if (last == followed_) return;
  device_->follow(pieces_[last - 1].ticket);
  followed_ = last;
}

void Buffer::begin_to_device(size_t from, size_t to) {
  float* const device = device_data() + from;
  pieces_.push_back({from, device_->upload_aside(device, data() + from, to - from)});
}

void Buffer::wait_pieces() {
  if (pieces_.empty()) return;
  follow_pieces(capacity_);
  for (const Piece& piece : pieces_) device_->wait(piece.ticket);
  pieces_.clear();
  followed_ = 0;
}

void Buffer::begin_to_host() {
  if (fresh_ != Fresh::kDevice) return;
  if (capacity_ > 0) device_->download(data(), device_data(), device_capacity_);
  fresh_ = Fresh::kBoth;
}

void Buffer::to_host() {
  if (fresh_ != Fresh::kDevice) return;
  begin_to_host();
  device_->synchronize();
}

void Buffer::exchange_on_device(Buffer& other) {
  KINET_CHECK(device_ == other.device_ && capacity_ == other.capacity_,
              "buffers of {} and {} floats cannot change places on a device", capacity_,
              other.capacity_);
  std::swap(device_data_, other.device_data_);
  std::swap(device_capacity_, other.device_capacity_);
  written_on_device();
}

Tensor::Tensor(const Shape& shape, bool with_diff)
    : data_(std::make_shared<Buffer>()), diff_(with_diff ? std::make_shared<Buffer>() : nullptr) {
  resize(shape);
}

Tensor::Tensor(const Shape& shape, std::shared_ptr<Buffer> data, std::shared_ptr<Buffer> diff,
               size_t offset)
    : data_(std::move(data)), diff_(std::move(diff)), offset_(offset) {
  resize(shape);
}

Tensor Tensor::view(const Shape& shape, std::shared_ptr<Buffer> data, std::shared_ptr<Buffer> diff,
                    size_t offset) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.count_ = shape.count();
  tensor.data_ = std::move(data);
  tensor.diff_ = std::move(diff);
  tensor.offset_ = offset;
  return tensor;
}

void Tensor::resize(const Shape& shape) {
  shape_ = shape;
  count_ = shape.count();
  const size_t end = offset_ + static_cast<size_t>(count_);
  const bool grows = data_->capacity() < end || (diff_ && diff_->capacity() < end);
  if (!grows) return;
  KINET_CHECK(offset_ == 0, "a view at offset {} cannot grow to shape {}", offset_, shape.str());
  data_->reserve(end);
  if (diff_) diff_->reserve(end);
}

}  // namespace kinet
