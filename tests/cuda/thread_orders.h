// What tests of the CUDA back-end ask of the emulation and a real device has not: orders of
// threads, and reports of faults. KINET_TEST_ON_GPU: the program is for a real device.
#pragma once

#include <string>
#include <vector>

#ifndef KINET_TEST_ON_GPU
#include "cuda/emulation/control.h"
#endif

namespace kinet {

#ifdef KINET_TEST_ON_GPU

inline std::vector<std::string> thread_orders() { return {"of the device"}; }
inline void use_thread_order(const std::string&) {}
inline void use_lazy_streams(bool) {}
inline std::string device_reports() { return ""; }

#else

// Orders in which the emulation runs the threads of a kernel.
inline std::vector<std::string> thread_orders() { return {"forward", "backward", "random"}; }

inline void use_thread_order(const std::string& name) {
  using emulation::ThreadOrder;
  emulation::Options options = emulation::options();
  for (const auto order : {ThreadOrder::kForward, ThreadOrder::kBackward, ThreadOrder::kRandom}) {
    if (emulation::name_of(order) == name) options.order = order;
  }
  emulation::set_options(options);
}

// Work of a stream is done as late as CUDA allows, so that a missing wait shows.
inline void use_lazy_streams(bool lazy) {
  emulation::Options options = emulation::options();
  options.lazy_streams = lazy;
  emulation::set_options(options);
}

// As on a machine that lets nobody lock memory.
inline void refuse_locked_memory(bool refuse) {
  emulation::Options options = emulation::options();
  options.refuse_host_register = refuse;
  emulation::set_options(options);
}

// What the emulation has found since the last call, "" when nothing.
inline std::string device_reports() { return emulation::text_of(emulation::take_reports()); }

#endif

}  // namespace kinet
