// Threads inside a layer: one fork-join loop with a fixed partition.
//
// The partition depends only on (threads, n), never on timing, so results are the same bits for the
// same thread count. kinet alone divides work: OpenBLAS is held at one thread (math/blas.h).
//
// Each thread that calls parallel_for has helper threads of its own, made when first needed and
// ended with it, so two workers in one process do not meet. Helpers wait for work by looking for
// about 20 microseconds and then sleep: a run that shares its cores with others must not burn their
// time (measured: LeNet, 2 threads beside other work, is 7 times slower with a runtime that spins).
#pragma once

#include <algorithm>
#include <cstdint>

namespace kinet {

namespace detail {
// Calls run(body, part) for part 0 .. parts-1, part 0 on the caller, and returns when all are done.
// The first exception of any part is rethrown. A nested call runs its parts one after the other.
void run_parts(int parts, void (*run)(const void* body, int part), const void* body);
}  // namespace detail

// Calls body(begin, end, thread) for contiguous parts of [0, n), part t on thread t < threads.
// Empty parts are not called.
template <class Body>
void parallel_for(int threads, int64_t n, const Body& body) {
  const int parts = static_cast<int>(std::min<int64_t>(std::max(threads, 1), n));
  if (parts <= 1) {
    if (n > 0) body(int64_t{0}, n, 0);
    return;
  }
  const auto part = [&](int t) { body(n * t / parts, n * (t + 1) / parts, t); };
  detail::run_parts(
      parts, [](const void* p, int t) { (*static_cast<const decltype(part)*>(p))(t); }, &part);
}

// The same for element-wise work: no more threads than there are pieces of `grain` elements.
template <class Body>
void parallel_elements(int threads, int64_t n, const Body& body, int64_t grain = 16384) {
  const auto useful = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, n / grain)));
  parallel_for(useful, n, body);
}

}  // namespace kinet
