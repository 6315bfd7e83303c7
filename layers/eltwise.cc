#include "layers/eltwise.h"

#include <algorithm>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

const MessageType& eltwise_fields() {
  static const MessageType type{
      "eltwise_param",
      "how the bottoms are joined",
      {enum_field("operation", {{"PROD", 0}, {"SUM", 1}, {"MAX", 2}}, "SUM", "the operation"),
       repeated(float_field("coeff", "", "of SUM: one for each bottom; absent: 1")),
       bool_field("stable_prod_grad", "true",
                  "of PROD: multiply the others out instead of dividing y by x")}};
  return type;
}

void forward_max(Tensors bottoms, int64_t begin, int64_t end, float* winner, float* y) {
  std::copy(bottoms[0]->data() + begin, bottoms[0]->data() + end, y + begin);
  std::fill(winner + begin, winner + end, 0.0f);
  for (size_t b = 1; b < bottoms.size(); ++b) {
    const float* x = bottoms[b]->data();
    for (int64_t i = begin; i < end; ++i) {
      winner[i] = x[i] > y[i] ? static_cast<float>(b) : winner[i];
      y[i] = x[i] > y[i] ? x[i] : y[i];
    }
  }
}

void backward_max(float bottom, int64_t n, const float* winner, const float* dy, float* dx) {
  for (int64_t i = 0; i < n; ++i) dx[i] = winner[i] == bottom ? dy[i] : 0;
}

// dx = dy * product of all bottoms but `skip`.
void backward_prod(Tensors bottoms, size_t skip, int64_t begin, int64_t n, const float* dy,
                   float* dx) {
  std::copy_n(dy, n, dx);
  for (size_t b = 0; b < bottoms.size(); ++b) {
    if (b != skip) vec().mul(n, dx, bottoms[b]->data() + begin, dx);
  }
}

}  // namespace

LayerType Eltwise::describe() {
  LayerType type;
  type.type = "Eltwise";
  type.help = "sum, product or maximum of bottoms of one shape";
  type.fields = {message_field("eltwise_param", eltwise_fields(), "of Eltwise")};
  type.min_bottoms = 2;
  type.max_bottoms = -1;
  return type;
}

void Eltwise::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("eltwise_param");
  const std::string operation = p.get_enum("operation");
  operation_ = operation == "PROD"  ? Operation::kProd
               : operation == "MAX" ? Operation::kMax
                                    : Operation::kSum;
  stable_ = p.get_bool("stable_prod_grad");
  coeffs_ = p.get_floats("coeff");
  if (!coeffs_.empty() && operation_ != Operation::kSum) {
    fail_at(p.where("coeff"), "layer '" + name() + "': coeff is for operation SUM only");
  }
  if (!coeffs_.empty() && coeffs_.size() != bottoms.size()) {
    fail_at(p.where("coeff"), fmt::format("layer '{}': {} coeff for {} bottoms", name(),
                                          coeffs_.size(), bottoms.size()));
  }
  if (coeffs_.empty()) coeffs_.assign(bottoms.size(), 1.0f);
}

std::vector<Shape> Eltwise::reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) {
  for (size_t b = 1; b < bottoms.size(); ++b) {
    if (bottoms[b] == bottoms[0]) continue;
    fail_here(fmt::format("bottom {} has shape {}, bottom 0 has shape {}", b, bottoms[b].str(),
                          bottoms[0].str()));
  }
  if (operation_ == Operation::kMax) plan.saved(winner_, bottoms[0].count());
  return {bottoms[0]};
}

BackwardNeeds Eltwise::needs() const {
  const bool prod = operation_ == Operation::kProd;
  return {.bottom_data = prod, .top_data = prod && !stable_};
}

std::string Eltwise::summary() const {
  static const char* const kNames[] = {"PROD", "SUM", "MAX"};
  return kNames[static_cast<int>(operation_)];
}

void Eltwise::forward(const Context& context, Tensors bottoms, Tensors tops) {
  float* y = tops[0]->data();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    const int64_t n = end - begin;
    const float *a = bottoms[0]->data() + begin, *b = bottoms[1]->data() + begin;
    if (operation_ == Operation::kMax) {
      forward_max(bottoms, begin, end, winner_.data(), y);
    } else if (operation_ == Operation::kProd) {
      vec().mul(n, a, b, y + begin);
      for (size_t i = 2; i < bottoms.size(); ++i) {
        vec().mul(n, y + begin, bottoms[i]->data() + begin, y + begin);
      }
    } else {
      if (coeffs_[0] == 1 && coeffs_[1] == 1) {
        vec().add(n, a, b, y + begin);
      } else {
        vec().scale(n, coeffs_[0], a, y + begin);
        vec().axpy(n, coeffs_[1], b, y + begin);
      }
      for (size_t i = 2; i < bottoms.size(); ++i) {
        vec().axpy(n, coeffs_[i], bottoms[i]->data() + begin, y + begin);
      }
    }
  });
}

void Eltwise::backward(const Context& context, Tensors tops, Tensors bottoms,
                       const BackwardMask& mask) {
  const float *y = tops[0]->data(), *dy = tops[0]->diff();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    const int64_t n = end - begin;
    for (size_t b = 0; b < bottoms.size(); ++b) {
      if (!mask.bottom[b]) continue;
      const float* x = bottoms[b]->data() + begin;
      float* dx = bottoms[b]->diff() + begin;
      if (operation_ == Operation::kMax) {
        backward_max(static_cast<float>(b), n, winner_.data() + begin, dy + begin, dx);
      } else if (operation_ == Operation::kSum) {
        vec().scale(n, coeffs_[b], dy + begin, dx);
      } else if (stable_) {
        backward_prod(bottoms, b, begin, n, dy + begin, dx);
      } else {
        for (int64_t i = 0; i < n; ++i) dx[i] = dy[begin + i] * (y[begin + i] / x[i]);
      }
    }
  });
}

KINET_REGISTER_LAYER(Eltwise);

}  // namespace kinet
