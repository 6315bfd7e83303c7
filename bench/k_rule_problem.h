// The training problem of k_rule_study_bench.cc: Fashion-MNIST at half size and a small fully
// connected net, so that a gradient costs a tenth of a millisecond.
//
// Net:  x (196) -> 64 -> 64 -> 10, ReLU between, softmax and cross-entropy at the end.
// Parameters lie in one vector, W then b of each layer; W is [outputs x inputs].
// Thread safety: one thread uses one Problem.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "data/idx.h"
#include "src/base/rng.h"
#include "src/math/blas.h"

namespace kinet {

constexpr int kSizes[] = {196, 64, 64, 10};
constexpr int kLayers = 3;
constexpr int kClasses = 10;

struct Images {
  std::vector<float> pixels;  // 196 each, mean 0
  std::vector<uint8_t> labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

// Means of 2 x 2 pixels, in -0.5 .. 0.5.
inline Images read_images(const std::string& images, const std::string& labels, int64_t most) {
  const IdxFile x = read_idx(images), y = read_idx(labels);
  Images out;
  const int64_t n = std::min<int64_t>(most, x.sizes[0]);
  out.labels.assign(y.values.begin(), y.values.begin() + n);
  out.pixels.reserve(n * kSizes[0]);
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* image = x.values.data() + i * 28 * 28;
    for (int row = 0; row < 28; row += 2) {
      for (int column = 0; column < 28; column += 2) {
        const uint8_t* p = image + row * 28 + column;
        out.pixels.push_back(static_cast<float>(p[0] + p[1] + p[28] + p[29]) / 1020 - 0.5F);
      }
    }
  }
  return out;
}

class Problem {
 public:
  explicit Problem(const std::string& folder)
      : train_(read_images(folder + "/train-images-idx3-ubyte.gz",
                           folder + "/train-labels-idx1-ubyte.gz", 60000)),
        test_(read_images(folder + "/t10k-images-idx3-ubyte.gz",
                          folder + "/t10k-labels-idx1-ubyte.gz", 3000)) {}

  static size_t parameters() {
    size_t n = 0;
    for (int l = 0; l < kLayers; ++l) n += size_t(kSizes[l] + 1) * kSizes[l + 1];
    return n;
  }

  static std::vector<float> start(uint64_t seed) {
    std::vector<float> w;
    Rng rng(seed, RngPurpose::kFiller);
    for (int l = 0; l < kLayers; ++l) {
      const float sigma = std::sqrt(2.0F / static_cast<float>(kSizes[l]));
      for (int i = 0; i < kSizes[l] * kSizes[l + 1]; ++i) w.push_back(sigma * rng.gaussian());
      w.insert(w.end(), kSizes[l + 1], 0.0F);
    }
    return w;
  }

  // Batch `number` of `worker`: drawn with replacement. Returns the loss; `g` is overwritten.
  double gradient(const std::vector<float>& w, int batch, uint64_t seed, int worker,
                  uint64_t number, std::vector<float>& g) {
    Rng rng(seed, RngPurpose::kShuffle, worker, number);
    input_.resize(size_t(batch) * kSizes[0]);
    labels_.resize(batch);
    for (int i = 0; i < batch; ++i) {
      const auto item = static_cast<int64_t>(rng.below(train_.count()));
      std::copy_n(train_.pixels.data() + item * kSizes[0], kSizes[0], &input_[i * kSizes[0]]);
      labels_[i] = train_.labels[item];
    }
    forward(w, input_.data(), batch);
    const double loss = softmax(labels_.data(), batch, nullptr);
    backward(w, input_.data(), batch, g);
    return loss;
  }

  struct Score {
    double loss = 0, accuracy = 0;
  };
  Score test(const std::vector<float>& w) {
    const int n = static_cast<int>(test_.count());
    forward(w, test_.pixels.data(), n);
    int right = 0;
    Score out;
    out.loss = softmax(test_.labels.data(), n, &right);
    out.accuracy = static_cast<double>(right) / n;
    return out;
  }

 private:
  void forward(const std::vector<float>& w, const float* x, int n) {
    const float* p = w.data();
    for (int l = 0; l < kLayers; ++l) {
      const int in = kSizes[l], out = kSizes[l + 1];
      std::vector<float>& y = y_[l];
      y.resize(size_t(n) * out);
      for (int i = 0; i < n; ++i) std::copy_n(p + in * out, out, &y[size_t(i) * out]);
      gemm(Trans::kNo, Trans::kYes, n, out, in, 1, x, p, 1, y.data());
      if (l + 1 < kLayers) {
        for (float& v : y) v = std::max(v, 0.0F);
      }
      x = y.data();
      p += (in + 1) * out;
    }
  }

  // The last layer's values become the gradient of the mean loss.
  double softmax(const uint8_t* labels, int n, int* right) {
    double loss = 0;
    for (int i = 0; i < n; ++i) {
      float* y = &y_[kLayers - 1][size_t(i) * kClasses];
      const float top = *std::max_element(y, y + kClasses);
      if (right && y[labels[i]] >= top) ++*right;
      double sum = 0;
      for (int c = 0; c < kClasses; ++c) sum += std::exp(y[c] - top);
      loss += std::log(sum) + top - y[labels[i]];
      for (int c = 0; c < kClasses; ++c) {
        const double share = std::exp(y[c] - top) / sum - (c == labels[i] ? 1 : 0);
        y[c] = static_cast<float>(share / n);
      }
    }
    return loss / n;
  }

  void backward(const std::vector<float>& w, const float* x, int n, std::vector<float>& g) {
    g.assign(parameters(), 0.0F);
    size_t at = parameters();
    for (int l = kLayers - 1; l >= 0; --l) {
      const int in = kSizes[l], out = kSizes[l + 1];
      at -= size_t(in + 1) * out;
      const std::vector<float>& dy = y_[l];
      const float* below = l > 0 ? y_[l - 1].data() : x;
      gemm(Trans::kYes, Trans::kNo, out, in, n, 1, dy.data(), below, 0, &g[at]);
      for (int i = 0; i < n; ++i) {
        for (int o = 0; o < out; ++o) g[at + in * out + o] += dy[size_t(i) * out + o];
      }
      if (l == 0) break;
      dx_.resize(size_t(n) * in);
      gemm(Trans::kNo, Trans::kNo, n, in, out, 1, dy.data(), &w[at], 0, dx_.data());
      for (size_t i = 0; i < dx_.size(); ++i) dx_[i] = y_[l - 1][i] > 0 ? dx_[i] : 0;
      y_[l - 1].swap(dx_);
    }
  }

  Images train_, test_;
  std::vector<float> input_, y_[kLayers], dx_;
  std::vector<uint8_t> labels_;
};

}  // namespace kinet
