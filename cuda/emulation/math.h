// Arithmetic of device code that the C++ library lacks or spells differently.
//
// Fast-math intrinsics are computed with full accuracy: the emulation does not model their error,
// and tests compare with tolerances.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

// The C library declares functions of these names, so they cannot be defined again.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, (x))
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf((x), (y))
#define __sincosf(x, s, c) sincosf((x), (s), (c))

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }  // NaN gives 0

// Unlike std::min, of mixed types as well, by the usual conversions.
#define KINET_MIN_MAX(type)                                    \
  constexpr type min(type a, type b) { return b < a ? b : a; } \
  constexpr type max(type a, type b) { return a < b ? b : a; }
KINET_MIN_MAX(int)
KINET_MIN_MAX(unsigned)
KINET_MIN_MAX(long)
KINET_MIN_MAX(unsigned long)
KINET_MIN_MAX(long long)
KINET_MIN_MAX(unsigned long long)
#undef KINET_MIN_MAX
constexpr unsigned min(int a, unsigned b) { return min(static_cast<unsigned>(a), b); }
constexpr unsigned min(unsigned a, int b) { return min(a, static_cast<unsigned>(b)); }
constexpr unsigned max(int a, unsigned b) { return max(static_cast<unsigned>(a), b); }
constexpr unsigned max(unsigned a, int b) { return max(a, static_cast<unsigned>(b)); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return ::fmin(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
  return reversed;
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

namespace kinet::emulation {
// Conversions to integers saturate and take NaN for 0, as the device's instructions do.
template <class Integer>
Integer to_integer(double x) {
  if (std::isnan(x)) return 0;
  constexpr double low = static_cast<double>(std::numeric_limits<Integer>::min());
  constexpr double high = static_cast<double>(std::numeric_limits<Integer>::max());
  if (x <= low) return std::numeric_limits<Integer>::min();
  if (x >= high) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(x);
}
}  // namespace kinet::emulation
inline int __float2int_rn(float x) { return kinet::emulation::to_integer<int>(rintf(x)); }
inline int __float2int_rz(float x) { return kinet::emulation::to_integer<int>(truncf(x)); }
inline int __float2int_rd(float x) { return kinet::emulation::to_integer<int>(floorf(x)); }
inline int __float2int_ru(float x) { return kinet::emulation::to_integer<int>(ceilf(x)); }
inline unsigned __float2uint_rn(float x) {
  return kinet::emulation::to_integer<unsigned>(rintf(x));
}
inline unsigned __float2uint_rz(float x) {
  return kinet::emulation::to_integer<unsigned>(truncf(x));
}
inline long long __float2ll_rn(float x) {
  return kinet::emulation::to_integer<long long>(rintf(x));
}

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
inline long long clock64() { return 0; }  // time is not modelled
