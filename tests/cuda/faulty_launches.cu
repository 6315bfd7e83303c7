// The layers' own kernels, launched right and launched wrong: with a size, a step or a pointer that
// is off by one. A checker that finds these finds the same mistakes in the layers.
#include "cuda/channels.h"
#include "cuda/conv_sums.cu"
#include "cuda/copy_rows.h"
#include "cuda/dropout.cu"
#include "cuda/eltwise.cu"
#include "cuda/fill.cu"
#include "cuda/gemm.cu"
#include "cuda/inner_product.cu"
#include "cuda/lrn.cu"
#include "cuda/optimizer.h"
#include "cuda/pooling.cu"
#include "cuda/sgd.cu"
#include "cuda/softmax.h"
#include "cuda/softmax_with_loss.cu"
#include "cuda/weighted_sum.h"
#include "tests/cuda/device_vector.h"
#include "tests/cuda/faulty_launches.h"

namespace kinet {

// Instead of the back-end's: what a launch did is read from the reports.
void check_cuda(cudaError_t, const char*, const char*, int) {}
void check_cublas(cublasStatus_t, const char*, const char*, int) {}
bool register_cuda_layer(const std::string&, CudaLayerMaker) { return true; }
bool register_cuda_optimizer(const std::string&, CudaOptimizerMaker) { return true; }
Gpu& gpu_of(const Context&) {
  static Gpu none;
  return none;
}
std::vector<UpdateBlock> update_blocks(const std::vector<ParameterSegment>&) { return {}; }

namespace {

using emulation::Fault;
using Floats = DeviceVector<float>;

Floats ones(size_t n) { return Floats(std::vector<float>(n, 1.0f)); }

// ---- elementwise

void fill_past_the_end(bool wrong) {
  const Floats y(101);
  fill_values(nullptr, wrong ? 102 : 101, 1, y);
}

void map_groups_of_unaligned_values(bool wrong) {
  const Floats x = ones(101), y(101);
  const int64_t groups = wrong ? 25 : 0;
  KINET_LAUNCH((map_1_kernel<Times>), 1, kThreads, 0, nullptr, int64_t{100}, groups, Times{2},
               x.data() + 1, y.data() + 1);
}

void sum_with_a_short_term(bool wrong) {
  const Floats a = ones(40), b = ones(wrong ? 39 : 40), y(40);
  weighted_sum(nullptr, 40, {a.data(), b.data()}, {1, 1}, y);
}

void largest_of_a_short_bottom(bool wrong) {
  const Floats a = ones(40), b = ones(wrong ? 39 : 40), y(40), winner(40);
  largest(nullptr, 40, {a.data(), b.data()}, y, winner);
}

// ---- sums around products

void ending_of_one_plane_too_many(bool wrong) {
  const Floats bias = ones(3), y = ones(2 * 3 * 10);
  end_planes(Gpu{}, wrong ? 3 : 2, 3, 10, Ending(bias, true), y);
}

void bias_gradient_without_room_for_the_slices(bool wrong) {
  const Floats dy = ones(4 * 3 * 5000), db = ones(3);
  const size_t floats = bias_workspace_floats(4, 3, 5000);
  const Floats parts(floats - (wrong ? 1 : 0));
  backward_bias(Gpu{}, 4, 3, 5000, dy, db, parts);
}

void slices_that_are_not_there(bool wrong) {
  const Floats parts = ones(3 * 7), sum = ones(7);
  add_slices(Gpu{}, 7, wrong ? 4 : 3, parts, sum);
}

void ending_of_rows_that_are_too_long(bool wrong) {
  const Floats bias = ones(8), y = ones(4 * 8);
  KINET_LAUNCH(end_rows_kernel, dim3(1, 4), kThreads, 0, nullptr, int64_t{4},
               int64_t{wrong ? 9 : 8}, Ending(bias, true), y);
}

void row_bias_gradient_by_half_a_block(bool wrong) {
  const Floats dy = ones(64 * 32), parts(32);
  KINET_LAUNCH(row_bias_gradient_kernel, dim3(1, 1), dim3(kColumns, wrong ? kRows / 2 : kRows), 0,
               nullptr, int64_t{64}, int64_t{64}, int64_t{32}, dy, parts);
}

// ---- channels

void sums_without_room_for_the_parts(bool wrong) {
  const Broadcast shape{4, 3, 64};
  const Floats x = ones(4 * 3 * 64), parts(SumPlan(shape).floats(shape) - (wrong ? 2 : 0)), to(3);
  sum_channels(nullptr, shape, ValueOnly{}, x, x, parts, Gradients{nullptr, to, false, false});
}

void sums_of_one_sample_too_many(bool wrong) {
  const Broadcast shape{wrong ? 6 : 5, 7, 3};
  const Floats x = ones(5 * 7 * 3), parts(SumPlan(shape).floats(shape)), to(7);
  sum_channels(nullptr, shape, ValueOnly{}, x, x, parts, Gradients{nullptr, to, false, false});
}

// ---- routing

void rows_that_overlap(bool wrong) {
  const Floats from = ones(30), to(30);
  copy_rows(nullptr, 6, 5, from, 5, to, wrong ? 4 : 5);
}

void rows_past_the_end(bool wrong) {
  const Floats from = ones(32), to(64);
  copy_rows(nullptr, 8, 4, from, 4, to + (wrong ? 8 : 4), 8);
}

// ---- softmax

struct Nothing {
  __device__ void operator()(int64_t, float, float) const {}
};

void softmax_of_one_row_too_many(bool wrong) {
  const Floats x = ones(5 * 12), y(5 * 12);
  softmax_forward(nullptr, {wrong ? 6 : 5, 12, 1}, x, y, Nothing{});
}

void softmax_by_half_a_warp(bool wrong) {
  const Floats x = ones(12), y(12);
  KINET_LAUNCH((softmax_rows_kernel<kWarp, false, Nothing>), 1, wrong ? 16 : 32, 0, nullptr,
               int64_t{1}, int64_t{12}, x, y, Nothing{});
}

void softmax_of_too_many_classes(bool wrong) {
  const Floats x = ones(2 * 5 * 6), y(2 * 5 * 6);
  softmax_forward(nullptr, {2, wrong ? 6 : 5, 6}, x, y, Nothing{});
}

void long_softmax_by_half_a_block(bool wrong) {  // block_reduce
  const Floats x = ones(600), y(600);
  KINET_LAUNCH((softmax_rows_kernel<kThreads, false, Nothing>), 1, wrong ? kThreads / 2 : kThreads,
               0, nullptr, int64_t{1}, int64_t{600}, x, y, Nothing{});
}

void loss_gradient_of_a_short_probability(bool wrong) {
  const int64_t n = 5 * 8;
  const Floats weight = ones(1), prob = ones(n - (wrong ? 1 : 0)), labels = ones(5), dx(n);
  KINET_LAUNCH((softmax_loss_backward_kernel<FastDivide>), 1, kThreads, 0, nullptr,
               SoftmaxShape{5, 8, 1}, n / 4, FastDivide(1), FastDivide(8), IgnoredLabel(), 1.0f,
               weight, prob, labels, dx);
}

// ---- dropout

void dropout_of_whole_groups(bool wrong) {
  const Floats x = ones(3 * 10), y(3 * 10);
  const Mask mask{1, 2, 0, 0, 1};
  const dim3 grid(1, 3);
  if (wrong) {
    KINET_LAUNCH((dropout_kernel<true>), grid, kThreads, 0, nullptr, int64_t{3}, int64_t{10}, mask,
                 x, y);
  } else {
    KINET_LAUNCH((dropout_kernel<false>), grid, kThreads, 0, nullptr, int64_t{3}, int64_t{10}, mask,
                 x, y);
  }
}

// ---- windows

constexpr int64_t kPlanes = 2, kSide = 7, kPooled = 3;  // windows of 3, step 2

PoolWindows<FastDivide> windows(int64_t outputs, int64_t pixels, int64_t row) {
  const ConvAxis axis{kSide, 3, 2, 0, 1};
  return {PoolAxis<FastDivide>(axis, outputs), PoolAxis<FastDivide>(axis, outputs),
          FastDivide(pixels), FastDivide(row), false};
}

void pooling_with_a_window_outside(bool wrong) {
  const int64_t outputs = wrong ? kPooled + 2 : kPooled, n = kPlanes * outputs * outputs;
  const Floats x = ones(kPlanes * kSide * kSide), y(n);
  const DeviceVector<int32_t> index(n);
  KINET_LAUNCH((max_pool_forward_kernel<FastDivide>), 1, kThreads, 0, nullptr, n,
               windows(outputs, outputs * outputs, outputs), x, y, index, nullptr);
}

void pooling_backward_of_a_short_gradient(bool wrong) {
  const int64_t n = kPlanes * kSide * kSide, outputs = kPlanes * kPooled * kPooled;
  const Floats dy = ones(outputs - (wrong ? 1 : 0)), dx(n);
  KINET_LAUNCH((ave_pool_backward_kernel<1, FastDivide>), 1, kThreads, 0, nullptr, n,
               windows(kPooled, kSide * kSide, kSide), dy, dx);
}

void pairs_of_an_odd_row(bool wrong) {  // 128-bit reads of rows that begin anywhere
  const int64_t side = wrong ? 6 : 8, outputs = side / 2, n = kPlanes * outputs * outputs / 2;
  const ConvAxis axis{side, 2, 2, 0, 1};
  const PoolWindows<FastDivide> pairs{
      PoolAxis<FastDivide>(axis, outputs), PoolAxis<FastDivide>(axis, outputs),
      FastDivide(outputs * outputs / 2), FastDivide(outputs / 2), false};
  const Floats x = ones(kPlanes * side * side), y(2 * n);
  const DeviceVector<int32_t> index(2 * n);
  KINET_LAUNCH((max_pool_pairs_kernel<FastDivide>), 1, kThreads, 0, nullptr, n, pairs, x, y, index,
               nullptr);
}

void pooling_backward_of_short_places(bool wrong) {
  const int64_t n = kPlanes * kSide * kSide, outputs = kPlanes * kPooled * kPooled;
  const Floats dy = ones(outputs), dx(n);
  const DeviceVector<int32_t> index(
      std::vector<int32_t>(static_cast<size_t>(outputs - (wrong ? 1 : 0)), 0));
  KINET_LAUNCH((max_pool_backward_kernel<1, FastDivide>), 1, kThreads, 0, nullptr, n,
               windows(kPooled, kSide * kSide, kSide), dy, index, dx);
}

void mean_of_a_window_outside(bool wrong) {
  const int64_t outputs = wrong ? kPooled + 2 : kPooled, n = kPlanes * outputs * outputs;
  const Floats x = ones(kPlanes * kSide * kSide), y(n);
  KINET_LAUNCH((ave_pool_warp_kernel<FastDivide>), static_cast<unsigned>(n), kThreads, 0, nullptr,
               n, windows(outputs, outputs * outputs, outputs), x, y);
}

void lrn_of_four_pixels_where_there_are_three(bool wrong) {
  const int64_t pixels = wrong ? 3 : 4, n = 6 * pixels;
  const Floats x = ones(n), scale(n), y(n);
  const LrnForward work{1, 0.1f, 0.75f, x, scale, y};
  const ChannelRuns<FastDivide> shape{pixels, 6, 1, FastDivide(1), FastDivide(1)};
  KINET_LAUNCH((lrn_runs_kernel<5, 4, FastDivide, LrnForward>), 1, kThreads, 0, nullptr, int64_t{1},
               shape, work);
}

void lrn_over_a_channel_that_is_not_there(bool wrong) {
  const int64_t n = 6 * 4;
  const Floats x = ones(n), scale(n), y(n);
  const int64_t channels = wrong ? 7 : 6;
  const LrnForward work{1, 0.1f, 0.75f, x, scale, y};
  const AcrossChannels<FastDivide> window{4, channels, 2, FastDivide(4), FastDivide(channels)};
  KINET_LAUNCH((lrn_window_kernel<AcrossChannels<FastDivide>, LrnForward>), 1, kThreads, 0, nullptr,
               n, window, work);
}

void lrn_of_runs_past_the_end(bool wrong) {
  const int64_t n = 6 * 4;
  const Floats x = ones(n), scale(n), y(n);
  const LrnForward work{1, 0.1f, 0.75f, x, scale, y};
  const ChannelRuns<FastDivide> shape{4, wrong ? 8 : 6, 1, FastDivide(4), FastDivide(1)};
  KINET_LAUNCH((lrn_runs_kernel<5, 1, FastDivide, LrnForward>), 1, kThreads, 0, nullptr, int64_t{4},
               shape, work);
}

// ---- update rules

void update_of_a_segment_past_the_arena(bool wrong) {
  const Floats w = ones(64), g = ones(64), h = ones(64);
  const DeviceVector<UpdateBlock> blocks(std::vector<UpdateBlock>{{16, wrong ? 50 : 48, 1, 1}});
  KINET_LAUNCH((update_kernel<SgdRule>), 1, kThreads, 0, nullptr, blocks.data(), UpdateNumbers{},
               SgdRule{0.9f}, w, g, h, nullptr);
}

}  // namespace

std::vector<FaultyLaunch> faulty_launches() {
  const std::vector<Fault> bounds{Fault::kOutOfBounds};
  return {
      {"fill past the end", fill_past_the_end, bounds},
      {"groups of four of unaligned values", map_groups_of_unaligned_values, {Fault::kMisaligned}},
      {"weighted sum with a short term", sum_with_a_short_term, bounds},
      {"largest of a short bottom", largest_of_a_short_bottom, bounds},
      {"ending of one plane too many", ending_of_one_plane_too_many, bounds},
      {"bias gradient without room for the slices", bias_gradient_without_room_for_the_slices,
       bounds},
      {"slices that are not there", slices_that_are_not_there, bounds},
      {"ending of rows that are too long", ending_of_rows_that_are_too_long, bounds},
      {"bias gradient of rows by half a block",
       row_bias_gradient_by_half_a_block,
       {Fault::kUninitialised}},
      {"sums without room for the parts", sums_without_room_for_the_parts, bounds},
      {"sums of one sample too many", sums_of_one_sample_too_many, bounds},
      {"rows that overlap", rows_that_overlap, {Fault::kRace}},
      {"rows past the end", rows_past_the_end, bounds},
      {"softmax of one row too many", softmax_of_one_row_too_many, bounds},
      {"softmax by half a warp",
       softmax_by_half_a_warp,
       {Fault::kInactiveSource, Fault::kLaneOutsideMask, Fault::kDeadlock}},
      {"softmax of too many classes", softmax_of_too_many_classes, bounds},
      {"long softmax by half a block", long_softmax_by_half_a_block, {Fault::kUninitialised}},
      {"loss gradient of a short probability", loss_gradient_of_a_short_probability, bounds},
      {"dropout of whole groups only",
       dropout_of_whole_groups,
       {Fault::kOutOfBounds, Fault::kMisaligned, Fault::kRace}},
      {"pooling with a window outside", pooling_with_a_window_outside, bounds},
      {"pooling backward of a short gradient", pooling_backward_of_a_short_gradient, bounds},
      {"pairs of windows in an odd row",
       pairs_of_an_odd_row,
       {Fault::kMisaligned, Fault::kOutOfBounds}},
      {"pooling backward of short places", pooling_backward_of_short_places, bounds},
      {"mean of a window outside", mean_of_a_window_outside, bounds},
      {"LRN of four pixels where there are three",
       lrn_of_four_pixels_where_there_are_three,
       {Fault::kMisaligned, Fault::kOutOfBounds}},
      {"LRN over a channel that is not there", lrn_over_a_channel_that_is_not_there, bounds},
      {"LRN of runs past the end", lrn_of_runs_past_the_end, bounds},
      {"update of a segment past the arena", update_of_a_segment_past_the_arena, bounds},
  };
}

}  // namespace kinet
