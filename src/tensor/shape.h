// Shape of a tensor: its dimensions, outermost first. Images are N C H W: samples, channels, rows,
// columns; the innermost dimension is contiguous (row-major).
//
// Limit: at most 2^40 elements, which is 4 TB of float32. Within it sizes, offsets and twice their
// sum fit 64 bits with room to spare, so no other code has to look out for overflow.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace kinet {

inline constexpr int64_t kMaxElements = int64_t{1} << 40;

class Shape {
 public:
  Shape() = default;  // no axes: a scalar, count 1
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int axes() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t& operator[](int axis) { return dims_[axis]; }
  const std::vector<int64_t>& dims() const { return dims_; }

  int64_t count() const { return count(0, axes()); }
  int64_t count(int from) const { return count(from, axes()); }
  // Product of dims [from, to). Throws Error beyond kMaxElements; that of the dims other than 0
  // counts, so that no part of a shape that passed can overflow either.
  int64_t count(int from, int to) const;

  // -1 means the last axis, and so on. Throws Error naming `what` when out of range.
  int canonical_axis(int64_t axis, const std::string& what) const;

  // Caffe's four named axes; an axis the shape does not have counts 1.
  int64_t num() const { return dim_or_1(0); }
  int64_t channels() const { return dim_or_1(1); }
  int64_t height() const { return dim_or_1(2); }
  int64_t width() const { return dim_or_1(3); }

  std::string str() const;  // "64x1x28x28", "scalar"
  bool operator==(const Shape&) const = default;

 private:
  int64_t dim_or_1(int axis) const { return axis < axes() ? dims_[axis] : 1; }

  std::vector<int64_t> dims_;
};

}  // namespace kinet
