// Atomic functions. They are defined in the engine, which runs one thread at a time: here they only
// need to be known to the race checker as atomic, and so they must not be inlined into kernels.
// Each returns the value before.
#pragma once

#define KINET_ATOMICS_OF_INTEGERS(type)                    \
  type atomicAdd(type* address, type value);               \
  type atomicMax(type* address, type value);               \
  type atomicMin(type* address, type value);               \
  type atomicExch(type* address, type value);              \
  type atomicCAS(type* address, type compare, type value); \
  type atomicAnd(type* address, type value);               \
  type atomicOr(type* address, type value);                \
  type atomicXor(type* address, type value);
KINET_ATOMICS_OF_INTEGERS(int)
KINET_ATOMICS_OF_INTEGERS(unsigned)
KINET_ATOMICS_OF_INTEGERS(unsigned long long)
#undef KINET_ATOMICS_OF_INTEGERS

int atomicSub(int* address, int value);
unsigned atomicSub(unsigned* address, unsigned value);
unsigned atomicInc(unsigned* address, unsigned limit);
unsigned atomicDec(unsigned* address, unsigned limit);
float atomicAdd(float* address, float value);
double atomicAdd(double* address, double value);
float atomicExch(float* address, float value);
