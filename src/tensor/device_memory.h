// Memory of a device (a GPU): what tensors, nets and the solver need of it and no more. The CUDA
// back-end (cuda/device_memory.h) is the one implementation.
//
// Order: all calls, and all kernels of the layers on this device, take effect in the order in which
// they are made (one stream). A call may return before it has taken effect; whoever reads or
// rewrites host memory that a copy uses waits first, as said at each call.
// Thread safety: one thread at a time; two devices, or one device opened twice, share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace kinet {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // A block of `floats` zeros, 256-byte aligned. Throws a run-time Error when the device is full.
  virtual float* allocate(size_t floats) = 0;
  // Gives a block back; it is used anew only after everything that was asked for before this call.
  virtual void release(float* memory) noexcept = 0;
  // Host memory that copies to and from the device reach at full speed (page-locked), `floats`
  // zeros, 64-byte aligned. May outlive this object. Any thread may call it.
  virtual std::shared_ptr<float[]> allocate_host(size_t floats) = 0;

  // `host` must keep its values until finish_uploads() or synchronize().
  virtual void upload(float* device, const float* host, size_t floats) = 0;
  // `host` has the values after synchronize().
  virtual void download(float* host, const float* device, size_t floats) = 0;
  // Beside what is asked for later: the copy of what all earlier calls have made. `host` has the
  // values after wait() with the ticket that it returns. `device` must not be written before.
  virtual uint64_t download_aside(float* host, const float* device, size_t floats) = 0;
  // Until a ticket is reached, which is spent by that; one that is spent is reached.
  virtual void wait(uint64_t ticket) = 0;
  virtual void copy(float* to, const float* from, size_t floats) = 0;  // both on the device
  virtual void fill(float* device, float value, size_t floats) = 0;
  // Square root of the sum of squares, not finite as soon as one element is not. Waits.
  virtual double norm(const float* device, size_t floats) = 0;

  // Waits until no upload reads host memory any more; free when none was made since the last wait.
  virtual void finish_uploads() = 0;
  // Waits for everything asked for so far. Throws a run-time Error when some of it has failed.
  virtual void synchronize() = 0;

  virtual std::string description() const = 0;  // "GPU 0: NVIDIA H200 (139 GB)"
  virtual size_t memory_bytes() const = 0;      // of the whole device

  // --- more that goes on beside the order of calls. Tickets are spent by wait().
  // The point that the order has come to: behind all earlier calls.
  virtual uint64_t mark() = 0;
  // Calls behind follow() see the values. `host` must keep its own until wait(). The copy comes
  // behind `after`, a ticket that is not spent, which is behind all calls that use what lies at
  // `device`; 0: behind all earlier calls.
  virtual uint64_t upload_aside(float* device, const float* host, size_t floats,
                                uint64_t after = 0) = 0;
  // What is asked for from now on comes behind that ticket; does not wait.
  virtual void follow(uint64_t ticket) = 0;

  // Page-locks memory of others, so that copies reach it at full speed, for as long as the result
  // is held; `owner` is held with it. Where the system refuses, copies still work: the result is
  // null, and `why` says the reason. Locked already: nothing is to be done, and that is no refusal.
  virtual std::shared_ptr<void> lock_pages(void* memory, size_t bytes, std::shared_ptr<void> owner,
                                           std::string* why) = 0;
};

}  // namespace kinet
