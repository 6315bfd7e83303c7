// From the net of training to the net of use: what remains when data, labels and losses are taken
// off, as a prototxt that Caffe reads too.
//
// The TEST net's layers, with these changes: the data layer becomes an Input layer; the main
// SoftmaxWithLoss becomes Softmax, SigmoidCrossEntropyLoss becomes Sigmoid; other losses, metrics,
// every layer that reads a label, and every layer that nothing of use reads are left out; so are
// fields that matter in training alone (rules, fillers, lr_mult, loss_weight).
// Thread safety: pure functions over the registries.
#pragma once

#include <string>

#include "src/net/net_spec.h"
#include "src/tensor/shape.h"

namespace kinet {

// The layer of the TEST net that brings the images: an Input layer or a data layer; or null.
const ParamNode* find_data_layer(const ParamNode& net);

// REQUIRES: net is prepared (load_net_file). `input` is the shape of the images, batch first; used
// only when the net has a data layer rather than an Input layer of its own.
// Throws Error when the net has neither.
ParamNode make_deploy_net(const ParamNode& net, const Shape& input);

// Whether make_deploy_net needs to be told the shape.
bool needs_input_shape(const ParamNode& net);

// The shape of the data layer's images, found by opening the data layer by itself.
Shape open_data_shape(const ParamNode& net);

}  // namespace kinet
