// Nets from text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/base/rng.h"
#include "src/net/net.h"
#include "src/prototxt/node.h"

namespace kinet::test {

inline ParamNode parse_net(const std::string& text, std::vector<std::string>* notes = nullptr) {
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(text, "test.prototxt", diagnostics);
  diagnostics.throw_if_any();
  return prepare_net(std::move(root), notes);
}

inline std::unique_ptr<Net> make_net(const std::string& text, Phase phase = Phase::kTrain,
                                     Net* training = nullptr, uint64_t seed = 1) {
  NetOptions options;
  options.state.phase = phase;
  options.seed = seed;
  return std::make_unique<Net>(parse_net(text), options, training);
}

inline std::vector<std::string> layer_names(const std::string& text, const NetState& state) {
  std::vector<std::string> names;
  const ParamNode net = parse_net(text);
  for (const LayerSpec& layer : make_net_spec(net, state).layers) names.push_back(layer.name);
  return names;
}

inline void randomize(Tensor& tensor, uint64_t seed, float std = 1) {
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data()[i] = std * rng.gaussian();
}

// What an Error says, or "" when `run` throws none.
template <class Run>
std::string error_of(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

}  // namespace kinet::test
