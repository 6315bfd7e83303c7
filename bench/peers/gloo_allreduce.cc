// Gloo's all-reduce as bench/allreduce_ratio.py measures it: in place, float sum, over its TCP
// transport on the loopback (it has no shared memory), one JSON line a size and algorithm.
//
//   gloo_allreduce RANK SIZE FOLDER ITERATIONS BYTES [BYTES ...]      ranks meet in FOLDER
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

long measure(const std::shared_ptr<gloo::rendezvous::Context>& context, std::vector<float>& data,
             const char* name, int iterations, const std::function<void()>& reduce) {
  std::fill(data.begin(), data.end(), 0.0F);
  for (int i = 0; i < 5; ++i) reduce();
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  std::vector<double> times;
  const double start = seconds();
  double last = start;
  for (int i = 0; i < iterations; ++i) {
    reduce();
    const double now = seconds();
    times.push_back((now - last) * 1e6);
    last = now;
  }
  std::fill(data.begin(), data.end(), static_cast<float>(context->rank + 1));
  reduce();
  long wrong = 0;
  const auto want = static_cast<float>(context->size * (context->size + 1) / 2);
  for (const float x : data) wrong += x == want ? 0 : 1;
  std::sort(times.begin(), times.end());
  if (context->rank == 0) {
    std::printf(
        "{\"bytes\": %zu, \"algorithm\": \"%s\", \"time_us\": %.3f, "
        "\"time_us_median\": %.3f, \"time_us_min\": %.3f, \"wrong\": %ld}\n",
        data.size() * sizeof(float), name, (last - start) * 1e6 / iterations,
        times[times.size() / 2], times.front(), wrong);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = std::atoi(argv[1]), size = std::atoi(argv[2]), iterations = std::atoi(argv[4]);
  gloo::rendezvous::FileStore store(argv[3]);
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  long wrong = 0;
  for (int a = 5; a < argc; ++a) {
    const int count = std::atoi(argv[a]) / static_cast<int>(sizeof(float));
    std::vector<float> data(count);
    gloo::AllreduceOptions ring(context);
    ring.setOutput(data.data(), count);
    ring.setReduceFunction(
        [](void* to, const void* x, const void* y, size_t n) { gloo::sum<float>(to, x, y, n); });
    wrong += measure(context, data, "ring", iterations, [&] { gloo::allreduce(ring); });
    gloo::AllreduceHalvingDoubling<float> halving(context, {data.data()}, count);
    wrong += measure(context, data, "halving_doubling", iterations, [&] { halving.run(); });
    gloo::AllreduceRingChunked<float> chunked(context, {data.data()}, count);
    wrong += measure(context, data, "ring_chunked", iterations, [&] { chunked.run(); });
  }
  return wrong == 0 ? 0 : 1;
}
