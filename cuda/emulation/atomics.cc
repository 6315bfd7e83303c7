#include "cuda/emulation/atomics.h"

#include "cuda/emulation/checker.h"

namespace {

// One host thread runs all fibres: reading and writing is atomic as it stands.
template <class T, class Change>
T change(T* address, Change new_value, const void* caller) {
  if (kinet::emulation::Checker* checker = kinet::emulation::active_checker) {
    checker->access(address, sizeof(T), kinet::emulation::AccessKind::kAtomic, caller);
  }
  const T old = *address;
  *address = new_value(old);
  return old;
}

}  // namespace

#define CALLER __builtin_return_address(0)
#define KINET_ATOMICS_OF_INTEGERS(type)                                             \
  type atomicAdd(type* address, type value) {                                       \
    return change(                                                                  \
        address, [=](type old) { return static_cast<type>(old + value); }, CALLER); \
  }                                                                                 \
  type atomicMax(type* address, type value) {                                       \
    return change(                                                                  \
        address, [=](type old) { return old < value ? value : old; }, CALLER);      \
  }                                                                                 \
  type atomicMin(type* address, type value) {                                       \
    return change(                                                                  \
        address, [=](type old) { return value < old ? value : old; }, CALLER);      \
  }                                                                                 \
  type atomicExch(type* address, type value) {                                      \
    return change(                                                                  \
        address, [=](type) { return value; }, CALLER);                              \
  }                                                                                 \
  type atomicCAS(type* address, type compare, type value) {                         \
    return change(                                                                  \
        address, [=](type old) { return old == compare ? value : old; }, CALLER);   \
  }                                                                                 \
  type atomicAnd(type* address, type value) {                                       \
    return change(                                                                  \
        address, [=](type old) { return old & value; }, CALLER);                    \
  }                                                                                 \
  type atomicOr(type* address, type value) {                                        \
    return change(                                                                  \
        address, [=](type old) { return old | value; }, CALLER);                    \
  }                                                                                 \
  type atomicXor(type* address, type value) {                                       \
    return change(                                                                  \
        address, [=](type old) { return old ^ value; }, CALLER);                    \
  }
KINET_ATOMICS_OF_INTEGERS(int)
KINET_ATOMICS_OF_INTEGERS(unsigned)
KINET_ATOMICS_OF_INTEGERS(unsigned long long)

int atomicSub(int* address, int value) {
  return change(
      address, [=](int old) { return old - value; }, CALLER);
}
unsigned atomicSub(unsigned* address, unsigned value) {
  return change(
      address, [=](unsigned old) { return old - value; }, CALLER);
}
unsigned atomicInc(unsigned* address, unsigned limit) {
  return change(
      address, [=](unsigned old) { return old >= limit ? 0 : old + 1; }, CALLER);
}
unsigned atomicDec(unsigned* address, unsigned limit) {
  return change(
      address, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1; }, CALLER);
}
float atomicAdd(float* address, float value) {
  return change(
      address, [=](float old) { return old + value; }, CALLER);
}
double atomicAdd(double* address, double value) {
  return change(
      address, [=](double old) { return old + value; }, CALLER);
}
float atomicExch(float* address, float value) {
  return change(
      address, [=](float) { return value; }, CALLER);
}
