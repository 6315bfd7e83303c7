// One data layer outside a net: built from prototxt text, run batch by batch.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/net/layer.h"
#include "src/prototxt/node.h"

namespace kinet {

class DataLayerRunner {
 public:
  // text: the inside of a `layer { }`, with its type; tops are data and label.
  explicit DataLayerRunner(const std::string& text, Phase phase = Phase::kTrain, uint64_t seed = 1,
                           const std::string& file = "net.prototxt") {
    Diagnostics diagnostics;
    root_ = parse_prototxt("layer { name: \"data\" " + text + " }", file, diagnostics);
    diagnostics.throw_if_any();
    const ParamNode& node = *root_.find("layer");
    const LayerType* type = LayerRegistry::instance().find(node.find("type")->text);
    if (!type) throw Error("no such layer type: " + node.find("type")->text);
    for (const Field& field : type->fields) {
      if (const ParamNode* message = node.find(field.name)) {
        validate(*message, *field.message, field.name, diagnostics);
      }
    }
    diagnostics.throw_if_any();
    layer_ = type->make();
    layer_->configure("data", phase, &node, type, seed, 2);
    context_.phase = phase;
    context_.seed = seed;
    layer_->set_up({});
    WorkspacePlan plan(std::make_shared<Buffer>());
    const std::vector<Shape> shapes = layer_->reshape({}, plan);
    data_ = std::make_unique<Tensor>(shapes.at(0), false);
    label_ = std::make_unique<Tensor>(shapes.at(1), false);
  }

  void forward() {
    Tensor* tops[] = {data_.get(), label_.get()};
    layer_->forward(context_, {}, tops);
  }
  std::vector<float> data() const { return {data_->data(), data_->data() + data_->count()}; }
  std::vector<int> labels() const { return {label_->data(), label_->data() + label_->count()}; }
  const Shape& shape() const { return data_->shape(); }
  Layer& layer() { return *layer_; }
  BatchSource& source() { return *layer_->batch_source(); }

  // Labels, then data, of the next `batches` batches.
  std::vector<float> take(int batches) {
    std::vector<float> out;
    for (int i = 0; i < batches; ++i) {
      forward();
      for (int label : labels()) out.push_back(static_cast<float>(label));
      const std::vector<float> values = data();
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }
  std::vector<int> take_labels(int batches) {
    std::vector<int> out;
    for (int i = 0; i < batches; ++i) {
      forward();
      const std::vector<int> more = labels();
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }

 private:
  ParamNode root_;
  Context context_;
  std::unique_ptr<Tensor> data_, label_;
  std::unique_ptr<Layer> layer_;
};

}  // namespace kinet
