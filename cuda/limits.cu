// See limits.h. Arithmetic: multiprocessors x multiply-adds a clock x clock x 2. The multiply-adds
// of float32 are the throughput table of the CUDA C++ programming guide (arithmetic instructions);
// those of tf32 follow from the rates in NVIDIA's papers on the A100 (156 TFLOP/s, 108
// multiprocessors, 1.41 GHz) and the H100 (495 TFLOP/s, 132, 1.83 GHz), dense matrices. Other
// architectures have products of several rates, so none is given. Memory: two transfers a clock
// times the width of the bus. Clocks are the highest that the device may run at; under load it is
// often slower.
#include <fmt/format.h>

#include "cuda/limits.h"

namespace kinet {
namespace {

// Of one multiprocessor in one clock; 0: not known.
int float32_multiply_adds(int architecture) {
  switch (architecture) {
    case 75:
    case 80:
      return 64;
    case 86:
    case 87:
    case 88:
    case 89:
    case 90:
    case 100:
    case 103:
    case 110:
    case 120:
    case 121:
      return 128;
    default:
      return 0;
  }
}

int tf32_multiply_adds(int architecture) {
  return architecture == 80 ? 512 : architecture == 90 ? 1024 : 0;
}

// 0 when the driver does not tell.
double attribute(cudaDeviceAttr which, int id) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, id) == cudaSuccess) return value;
  cudaGetLastError();  // told by the 0, not by the next call
  return 0;
}

}  // namespace

DeviceLimits limits_of(const cudaDeviceProp& properties, int id) {
  const double clock = 1e3 * attribute(cudaDevAttrClockRate, id);  // kHz
  const double memory_clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, id);
  const double bits = attribute(cudaDevAttrGlobalMemoryBusWidth, id);
  const int architecture = properties.major * 10 + properties.minor;
  const int multiply_adds = float32_multiply_adds(architecture);
  const double clocks = clock * properties.multiProcessorCount;  // of all of them, in a second
  DeviceLimits limits;
  limits.flops = 2 * clocks * multiply_adds;
  limits.tensor_flops = 2 * clocks * tf32_multiply_adds(architecture);
  limits.bytes_per_second = 2 * memory_clock * bits / 8;
  limits.computed_from =
      limits.flops > 0
          ? fmt::format("{} multiprocessors x {} multiply-adds x {:.2f} GHz",
                        properties.multiProcessorCount, multiply_adds, clock / 1e9)
          : fmt::format("arithmetic: unknown for sm_{} at {:.2f} GHz", architecture, clock / 1e9);
  limits.computed_from +=
      limits.bytes_per_second > 0
          ? fmt::format("; 2 x {:.2f} GHz x {:.0f} bits", memory_clock / 1e9, bits)
          : "; memory: the driver does not tell its clock or width";
  return limits;
}

}  // namespace kinet
