// MPI_Allreduce as bench/allreduce_ratio.py measures it: in place, float sum, one JSON line a size.
//
//   mpirun -n 2 mpi_allreduce ITERATIONS BYTES [BYTES ...]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int iterations = std::atoi(argv[1]);
  long wrong = 0;
  for (int a = 2; a < argc; ++a) {
    const int count = std::atoi(argv[a]) / static_cast<int>(sizeof(float));
    std::vector<float> data(count, 0.0F);
    const auto reduce = [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    for (int i = 0; i < 5; ++i) reduce();
    MPI_Barrier(MPI_COMM_WORLD);
    std::vector<double> times;
    const double start = MPI_Wtime();
    double last = start;
    for (int i = 0; i < iterations; ++i) {
      reduce();
      const double now = MPI_Wtime();
      times.push_back((now - last) * 1e6);
      last = now;
    }
    std::fill(data.begin(), data.end(), static_cast<float>(rank + 1));
    reduce();
    for (const float x : data) wrong += x == static_cast<float>(size * (size + 1) / 2) ? 0 : 1;
    std::sort(times.begin(), times.end());
    if (rank == 0) {
      std::printf(
          "{\"bytes\": %d, \"time_us\": %.3f, \"time_us_median\": %.3f, \"time_us_min\": %.3f, "
          "\"wrong\": %ld}\n",
          count * 4, (last - start) * 1e6 / iterations, times[times.size() / 2], times.front(),
          wrong);
    }
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
