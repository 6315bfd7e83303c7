// KINET_LAUNCH under the host emulation: arguments are converted to the kernel's parameter types,
// copied, and handed to the engine together with a function that calls the kernel for one thread.
//
// Errors of a launch (a block of more than 1024 threads and the like) are found at once and told by
// cudaGetLastError(), faults inside the kernel as well; both as on a device.
// Thread safety: any thread may launch; the emulated device runs one launch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda/emulation/runtime_api.h"
#include "cuda/emulation/vector_types.h"

// 1 in translation units whose memory accesses the compiler reports to the engine (check mode).
#ifndef KINET_EMULATION_CHECKED
#define KINET_EMULATION_CHECKED 0
#endif

namespace kinet::emulation {

// Where a launch, a barrier or a warp operation is written.
struct Site {
  const char* what;
  const char* file;
  int line;
};

struct Launch {
  Site site;
  const void* kernel;
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  bool checked;
  std::shared_ptr<void> arguments;
  size_t argument_bytes;
  // Runs the kernel for the thread that the built-in variables tell.
  void (*call)(const void* kernel, void* arguments);
};

// Checks the launch and runs it, or queues it when streams are lazy (control.h).
void submit(Launch launch, cudaStream_t stream);

// Only the kernel's type says what P is, so that a literal 0 may stand for a null pointer.
template <class... P>
void launch(void (*kernel)(P...), Site site, dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, std::type_identity_t<P>... arguments) {
  using Values = std::tuple<std::remove_cv_t<P>...>;
  auto values = std::make_shared<Values>(arguments...);
  const auto call = [](const void* function, void* tuple) {
    std::apply(reinterpret_cast<void (*)(P...)>(reinterpret_cast<uintptr_t>(function)),
               *static_cast<const Values*>(tuple));
  };
  submit({site, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
          KINET_EMULATION_CHECKED != 0, std::move(values), sizeof(Values), call},
         stream);
}

}  // namespace kinet::emulation
