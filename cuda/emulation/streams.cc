// Streams and events.
//
// Work runs when it is asked for, which is one of the orders that CUDA allows. With lazy streams
// (control.h) it runs as late as CUDA allows: work on a stream waits until the host waits for the
// stream, for an event behind it, for the device, or until the default stream is used, which waits
// for all streams that are not "non-blocking". That finds a missing synchronisation.
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <random>

#include "cuda/emulation/engine.h"

namespace kinet::emulation {

using Clock = std::chrono::steady_clock;

struct Event {
  bool timed = true;
  int64_t recorded = 0;   // cudaEventRecord calls
  int64_t completed = 0;  // of those, how many have been reached
  cudaStream_t stream = nullptr;
  Clock::time_point time;
};

struct Stream {
  bool blocking = true;  // the default stream waits for it
  std::deque<Work> queue;
};

namespace {

struct Streams {
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  std::minstd_rand random;
};

Streams& all() {
  static Streams* const streams = new Streams;  // never destroyed, as the engine
  return *streams;
}

template <class T>
bool is_live(const std::vector<std::unique_ptr<T>>& list, const T* object) {
  return std::any_of(list.begin(), list.end(), [&](const auto& p) { return p.get() == object; });
}

template <class T>
void remove(std::vector<std::unique_ptr<T>>& list, const T* object) {
  std::erase_if(list, [&](const auto& p) { return p.get() == object; });
}

bool is_stream(cudaStream_t stream) { return stream == nullptr || is_live(all().streams, stream); }

void run_first(Stream& stream) {
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  work();
}

void drain(Stream& stream) {
  while (!stream.queue.empty()) run_first(stream);
}

// All streams for which `chosen` holds: one after the other, or mixed at random.
template <class Chosen>
void drain_streams(Chosen chosen) {
  std::vector<Stream*> busy;
  for (const auto& stream : all().streams) {
    if (chosen(*stream)) busy.push_back(stream.get());
  }
  const ThreadOrder order = engine().options.order;
  if (order == ThreadOrder::kBackward) std::reverse(busy.begin(), busy.end());
  if (order != ThreadOrder::kRandom) {
    for (Stream* stream : busy) drain(*stream);
    return;
  }
  for (;;) {
    std::erase_if(busy, [](const Stream* stream) { return stream->queue.empty(); });
    if (busy.empty()) return;
    run_first(*busy[all().random() % busy.size()]);
  }
}

void reach(Event& event, int64_t record) {
  while (event.completed < record && event.stream != nullptr && !event.stream->queue.empty()) {
    run_first(*event.stream);
  }
}

cudaError_t create_stream(cudaStream_t* stream, bool blocking) {
  const Lock lock(engine().mutex);
  if (engine().options.device_count < 1) return finish(cudaErrorNoDevice);
  all().streams.push_back(std::make_unique<Stream>());
  *stream = all().streams.back().get();
  (*stream)->blocking = blocking;
  return finish(cudaSuccess);
}

}  // namespace

void enqueue(cudaStream_t stream, Work work) {
  if (stream == nullptr) {
    drain_streams([](const Stream& other) { return other.blocking; });
    work();
  } else if (!is_stream(stream)) {
    finish(cudaErrorInvalidResourceHandle);
  } else if (engine().options.lazy_streams) {
    stream->queue.push_back(std::move(work));
  } else {
    work();
  }
}

void drain_all() {
  drain_streams([](const Stream&) { return true; });
}

void forget_streams() {
  for (const auto& stream : all().streams) stream->queue.clear();
}

}  // namespace kinet::emulation

using namespace kinet::emulation;

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create_stream(stream, true); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, (flags & cudaStreamNonBlocking) == 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(engine().mutex);
  if (stream == nullptr || !is_stream(stream)) return finish(cudaErrorInvalidResourceHandle);
  drain(*stream);
  for (const auto& event : all().events) {
    if (event->stream == stream) event->stream = nullptr;
  }
  remove(all().streams, stream);
  return finish(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(engine().mutex);
  if (!is_stream(stream)) return finish(cudaErrorInvalidResourceHandle);
  if (stream == nullptr) {
    drain_streams([](const Stream& other) { return other.blocking; });
  } else {
    drain(*stream);
  }
  return finish(cudaSuccess);
}

// Looking does not run anything: a host that asks again and again is told "not ready" once, then
// the stream goes on by one piece of work, so that a loop of queries ends.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(engine().mutex);
  if (!is_stream(stream)) return finish(cudaErrorInvalidResourceHandle);
  if (stream == nullptr || stream->queue.empty()) return finish(cudaSuccess);
  run_first(*stream);
  return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(engine().mutex);
  if (!is_stream(stream) || !is_live(all().events, event)) {
    return finish(cudaErrorInvalidResourceHandle);
  }
  const int64_t record = event->recorded;
  enqueue(stream, [event, record] {
    if (is_live(all().events, event)) reach(*event, record);
  });
  return finish(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const Lock lock(engine().mutex);
  enqueue(stream, [=] { function(data); });
  return finish(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Lock lock(engine().mutex);
  if (engine().options.device_count < 1) return finish(cudaErrorNoDevice);
  all().events.push_back(std::make_unique<Event>());
  *event = all().events.back().get();
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return finish(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(engine().mutex);
  if (!is_live(all().events, event)) return finish(cudaErrorInvalidResourceHandle);
  reach(*event, event->recorded);
  remove(all().events, event);
  return finish(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(engine().mutex);
  if (!is_live(all().events, event) || !is_stream(stream)) {
    return finish(cudaErrorInvalidResourceHandle);
  }
  const int64_t record = ++event->recorded;
  event->stream = stream;
  enqueue(stream, [event, record] {
    if (!is_live(all().events, event)) return;
    event->completed = record;
    event->time = Clock::now();
  });
  return finish(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(engine().mutex);
  if (!is_live(all().events, event)) return finish(cudaErrorInvalidResourceHandle);
  if (event->completed >= event->recorded || event->stream == nullptr ||
      event->stream->queue.empty()) {
    return finish(cudaSuccess);
  }
  run_first(*event->stream);
  return cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(engine().mutex);
  if (!is_live(all().events, event)) return finish(cudaErrorInvalidResourceHandle);
  reach(*event, event->recorded);
  return finish(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Lock lock(engine().mutex);
  for (const Event* event : {start, end}) {
    if (!is_live(all().events, event) || !event->timed || event->recorded == 0) {
      return finish(cudaErrorInvalidResourceHandle);
    }
    if (event->completed < event->recorded) return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return finish(cudaSuccess);
}
