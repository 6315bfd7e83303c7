// cudaMalloc and its kind, copies and fills.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "cuda/emulation/engine.h"

namespace kinet::emulation {
namespace {

bool is_device(const void* pointer) { return engine().device.contains(pointer); }

bool is_pinned(const void* pointer) {
  Engine& e = engine();
  if (e.pinned.contains(pointer)) return true;
  auto after = e.registered.upper_bound(pointer);
  if (after == e.registered.begin()) return false;
  const auto [begin, bytes] = *std::prev(after);
  return static_cast<const char*>(pointer) < static_cast<const char*>(begin) + bytes;
}

// Whether [pointer, pointer + bytes) may be touched; a report when it may not.
bool range_is_good(const void* pointer, size_t bytes, const char* call, const char* role) {
  Engine& e = engine();
  if (bytes == 0) return true;
  for (const Arena* arena : {&e.device, &e.pinned}) {
    if (!arena->contains(pointer) || arena->covers(pointer, bytes)) continue;
    report(Fault::kDeviceCall, call,
           fmt::format("{} bytes {} {}", bytes, role, arena->describe(pointer)));
    return false;
  }
  return pointer != nullptr;
}

bool kind_is_right(const void* to, const void* from, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !is_device(to) && !is_device(from);
    case cudaMemcpyHostToDevice:
      return is_device(to) && !is_device(from);
    case cudaMemcpyDeviceToHost:
      return !is_device(to) && is_device(from);
    case cudaMemcpyDeviceToDevice:
      return is_device(to) && is_device(from);
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

struct Copy {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch;
  size_t width, height;  // bytes, rows
};

void copy_rows(const Copy& copy) {
  for (size_t row = 0; row < copy.height; ++row) {
    std::memcpy(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.width);
  }
}

// Bytes from the first to behind the last one of a block of rows.
size_t extent(size_t pitch, size_t width, size_t height) {
  return height == 0 || width == 0 ? 0 : (height - 1) * pitch + width;
}

cudaError_t copy(const Copy& copy, cudaMemcpyKind kind, cudaStream_t stream, bool wait,
                 const char* call) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (e.sticky != cudaSuccess) return finish(e.sticky);
  if (copy.height == 0 || copy.width == 0) return cudaSuccess;
  if (copy.height > 1 && (copy.width > copy.to_pitch || copy.width > copy.from_pitch)) {
    return finish(cudaErrorInvalidPitchValue);
  }
  if (!kind_is_right(copy.to, copy.from, kind)) return finish(cudaErrorInvalidValue);
  if (!range_is_good(copy.to, extent(copy.to_pitch, copy.width, copy.height), call, "to") ||
      !range_is_good(copy.from, extent(copy.from_pitch, copy.width, copy.height), call, "from")) {
    return finish(cudaErrorInvalidValue);
  }
  // A copy between the device and memory that is not pinned goes through a buffer of the driver, in
  // the stream's order, and the call returns when the host's side is done with.
  const auto pageable = [](const void* p) { return !is_device(p) && !is_pinned(p); };
  wait = wait || pageable(copy.to) || pageable(copy.from);
  enqueue(stream, [copy] { copy_rows(copy); });
  return wait ? cudaStreamSynchronize(stream) : finish(cudaSuccess);
}

cudaError_t fill(void* to, int value, size_t bytes, cudaStream_t stream, const char* call) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (e.sticky != cudaSuccess) return finish(e.sticky);
  if (bytes == 0) return cudaSuccess;
  if (!is_device(to) && !is_pinned(to)) return finish(cudaErrorInvalidValue);
  if (!range_is_good(to, bytes, call, "to")) return finish(cudaErrorInvalidValue);
  enqueue(stream, [=] { std::memset(to, value, bytes); });
  return finish(cudaSuccess);
}

cudaError_t allocate(Arena& arena, void** pointer, size_t bytes, size_t limit) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (e.sticky != cudaSuccess) return finish(e.sticky);
  if (pointer == nullptr) return finish(cudaErrorInvalidValue);
  if (e.options.device_count < 1) return finish(cudaErrorNoDevice);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (arena.live_bytes() + bytes > limit) return finish(cudaErrorMemoryAllocation);
  *pointer = arena.allocate(bytes);
  return finish(*pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t release(Arena& arena, void* pointer) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (pointer == nullptr) return cudaSuccess;
  drain_all();
  return finish(arena.free(pointer) ? e.sticky : cudaErrorInvalidValue);
}

}  // namespace

cudaError_t copy_symbol(void* to, const void* from, size_t bytes, size_t offset, size_t symbol) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (offset + bytes > symbol) return finish(cudaErrorInvalidValue);
  drain_all();
  std::memcpy(to, from, bytes);
  return finish(e.sticky);
}

}  // namespace kinet::emulation

using namespace kinet::emulation;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return allocate(engine().device, pointer, bytes, engine().options.memory_bytes);
}
cudaError_t cudaFree(void* pointer) { return release(engine().device, pointer); }
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return allocate(engine().pinned, pointer, bytes, Arena::kSpace);
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* pointer) { return release(engine().pinned, pointer); }

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  const Lock lock(engine().mutex);
  if (pointer == nullptr || bytes == 0) return finish(cudaErrorInvalidValue);
  if (engine().options.refuse_host_register) return finish(cudaErrorMemoryAllocation);
  const bool is_new = engine().registered.emplace(pointer, bytes).second;
  return is_new ? cudaSuccess : finish(cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* pointer) {
  const Lock lock(engine().mutex);
  return engine().registered.erase(pointer) == 1 ? cudaSuccess : finish(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (e.options.device_count < 1) return finish(cudaErrorNoDevice);
  *total = e.options.memory_bytes;
  *free = *total - e.device.live_bytes();
  return finish(e.sticky);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Lock lock(engine().mutex);
  void* const address = const_cast<void*>(pointer);
  *attributes = {cudaMemoryTypeUnregistered, 0, nullptr, address};
  if (is_device(pointer)) *attributes = {cudaMemoryTypeDevice, 0, address, nullptr};
  if (is_pinned(pointer)) *attributes = {cudaMemoryTypeHost, 0, address, address};
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy({static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1},
              kind, nullptr, true, "cudaMemcpy");
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy({static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1},
              kind, stream, false, "cudaMemcpyAsync");
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return copy(
      {static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height},
      kind, nullptr, true, "cudaMemcpy2D");
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy(
      {static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height},
      kind, stream, false, "cudaMemcpy2DAsync");
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return fill(to, value, bytes, nullptr, "cudaMemset");
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill(to, value, bytes, stream, "cudaMemsetAsync");
}
