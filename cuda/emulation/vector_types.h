// CUDA's vector types with their alignment, and dim3.
#pragma once

#include <cstdint>

#define KINET_VECTOR_TYPES(name, scalar, align2, align4)                               \
  struct name##1 {                                                                     \
    scalar x;                                                                          \
  };                                                                                   \
  struct __attribute__((aligned(align2))) name##2 {                                    \
    scalar x, y;                                                                       \
  };                                                                                   \
  struct name##3 {                                                                     \
    scalar x, y, z;                                                                    \
  };                                                                                   \
  struct __attribute__((aligned(align4))) name##4 {                                    \
    scalar x, y, z, w;                                                                 \
  };                                                                                   \
  constexpr name##1 make_##name##1(scalar x) { return {x}; }                           \
  constexpr name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }              \
  constexpr name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

KINET_VECTOR_TYPES(char, signed char, 2, 4)
KINET_VECTOR_TYPES(uchar, unsigned char, 2, 4)
KINET_VECTOR_TYPES(short, short, 4, 8)
KINET_VECTOR_TYPES(ushort, unsigned short, 4, 8)
KINET_VECTOR_TYPES(int, int, 8, 16)
KINET_VECTOR_TYPES(uint, unsigned int, 8, 16)
KINET_VECTOR_TYPES(longlong, long long, 16, 16)
KINET_VECTOR_TYPES(ulonglong, unsigned long long, 16, 16)
KINET_VECTOR_TYPES(float, float, 8, 16)
KINET_VECTOR_TYPES(double, double, 16, 16)
#undef KINET_VECTOR_TYPES

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
