// Threads inside a layer: one fork-join loop with a fixed partition.
//
// The partition depends only on (threads, n), never on timing, so results are the same bits for the
// same thread count. kinet alone divides work: OpenBLAS is held at one thread (math/blas.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

namespace kinet {

// Calls body(begin, end, thread) for contiguous parts of [0, n), part t on thread t < threads.
// Empty parts are not called. An exception in any part is rethrown in the caller when all are done.
template <class Body>
void parallel_for(int threads, int64_t n, const Body& body) {
  const int parts = static_cast<int>(std::min<int64_t>(std::max(threads, 1), n));
  if (parts <= 1) {
    if (n > 0) body(int64_t{0}, n, 0);
    return;
  }
  std::exception_ptr error;
  std::mutex guard;
#ifdef _OPENMP
#pragma omp parallel for num_threads(parts) schedule(static, 1)
#endif
  for (int t = 0; t < parts; ++t) {
    try {
      body(n * t / parts, n * (t + 1) / parts, t);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(guard);
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// The same for element-wise work: no more threads than there are pieces of `grain` elements.
template <class Body>
void parallel_elements(int threads, int64_t n, const Body& body, int64_t grain = 16384) {
  const auto useful = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, n / grain)));
  parallel_for(useful, n, body);
}

}  // namespace kinet
