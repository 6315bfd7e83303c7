// InnerProduct on the device: three products by cuBLAS; see layers/inner_product.h.
#include "cuda/conv_sums.h"
#include "cuda/gemm.h"
#include "cuda/layer.h"
#include "cuda/relu.h"
#include "layers/inner_product.h"
#include "src/net/fusion.h"

namespace kinet {
namespace {

// y[i, o] += b[o], and ReLU, as the ending says; rows x outputs.
__global__ void __launch_bounds__(kThreads)
    end_rows_kernel(int64_t rows, int64_t outputs, Ending ending, float* y) {
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    KINET_GRID_STRIDE(o, outputs) {
      float& value = y[row * outputs + o];
      value = ending.finish(ending.bias != nullptr ? value + ending.bias[o] : value);
    }
  }
}

constexpr int kColumns = 32;  // outputs of a block, one for each lane
constexpr int kRows = 8;      // threads of a block for each output

// parts[slice][o] = sum over this slice's rows i of dy[i, o]. Grid: x blocks of kColumns outputs, y
// slices. Lanes read neighbouring outputs; the threads of an output meet in shared memory.
__global__ void __launch_bounds__(kColumns* kRows)
    row_bias_gradient_kernel(int64_t rows, int64_t slice_rows, int64_t outputs, const float* dy,
                             float* parts) {
  __shared__ float sums[kRows][kColumns];
  const int64_t o = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const int64_t begin = blockIdx.y * slice_rows;
  const int64_t end = begin + (rows - begin < slice_rows ? rows - begin : slice_rows);
  float sum = 0;
  if (o < outputs) {
    for (int64_t i = begin + threadIdx.y; i < end; i += kRows) sum += dy[i * outputs + o];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || o >= outputs) return;
  for (int row = 1; row < kRows; ++row) sum += sums[row][threadIdx.x];
  parts[blockIdx.y * outputs + o] = sum;
}

// At least 64 rows a block.
int64_t slices_of(int64_t rows, int64_t outputs) {
  const int64_t wanted = divide_up(kTargetBlocks, divide_up(outputs, kColumns));
  return std::clamp<int64_t>(rows / 64, 1, wanted);
}

class CudaInnerProduct : public InnerProductLayer, public CanEndWithRelu {
 public:
  void set_up(const std::vector<Shape>& bottoms) override {
    InnerProductLayer::set_up(bottoms);
    tf32_ = params("inner_product_param").get_enum("gpu_math") != "FLOAT32";
  }

  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = InnerProductLayer::reshape(bottoms, plan);
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (rows_ > kMost) fail_here("has more than 2^31 - 1 rows, the most that cuBLAS can multiply");
    plan.temporary(workspace_, static_cast<size_t>(slices_of(rows_, outputs_) * outputs_));
    return tops;
  }

  void end_with_relu() override { relu_ = true; }

  // y = x W' + b
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const Gpu& gpu = gpu_of(context);
    const Tf32Products tf32(gpu, tf32_);
    float* y = tops[0]->device_data();
    gemm(gpu, rows_, outputs_, inputs_, {bottoms[0]->device_data()},
         {blobs()[0].device_data(), !transpose_}, {y});
    const Ending ending(bias_term_ ? blobs()[1].device_data() : nullptr, relu_);
    if (ending.nothing() || rows_ == 0) return;
    const dim3 grid(static_cast<unsigned>(std::min<int64_t>(divide_up(outputs_, kThreads), 1024)),
                    static_cast<unsigned>(std::min(rows_, kMostBlocks)));
    KINET_LAUNCH(end_rows_kernel, grid, kThreads, 0, gpu.stream, rows_, outputs_, ending, y);
    KINET_CUDA_CHECK_LAUNCH();
  }

  // dW += dy' x;  db += column sums of dy;  dx = dy W
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const Gpu& gpu = gpu_of(context);
    const Tf32Products tf32(gpu, tf32_);
    const GemmOperand dy{tops[0]->device_diff()}, x{bottoms[0]->device_data()};
    const GemmOperand dy_transposed{dy.data, true}, x_transposed{x.data, true};
    Tensor& weights = blobs()[0];
    if (bias_term_ && mask.blob[1] && rows_ > 0) add_bias_gradient(gpu, dy.data);
    if (mask.blob[0] && transpose_) {
      gemm(gpu, inputs_, outputs_, rows_, x_transposed, dy, {weights.device_diff(), 1});
    } else if (mask.blob[0]) {
      gemm(gpu, outputs_, inputs_, rows_, dy_transposed, x, {weights.device_diff(), 1});
    }
    if (mask.bottom[0]) {
      gemm(gpu, rows_, inputs_, outputs_, dy, {weights.device_data(), transpose_},
           {bottoms[0]->device_diff()});
    }
  }

 private:
  void add_bias_gradient(const Gpu& gpu, const float* dy) {
    const int64_t slice_rows = divide_up(rows_, slices_of(rows_, outputs_));
    const int64_t slices = divide_up(rows_, slice_rows);
    const dim3 grid(static_cast<unsigned>(divide_up(outputs_, kColumns)),
                    static_cast<unsigned>(slices));
    KINET_LAUNCH(row_bias_gradient_kernel, grid, dim3(kColumns, kRows), 0, gpu.stream, rows_,
                 slice_rows, outputs_, dy, workspace_.device_data());
    KINET_CUDA_CHECK_LAUNCH();
    add_slices(gpu, outputs_, slices, workspace_.device_data(), blobs()[1].device_diff());
  }

  bool tf32_ = false, relu_ = false;
  Workspace workspace_;
};

KINET_REGISTER_CUDA_LAYER("InnerProduct", CudaInnerProduct);

}  // namespace
}  // namespace kinet
