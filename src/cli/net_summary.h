// What there is to say about a net before it runs: its table of layers, its data, its labels.
// Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "src/net/net.h"

namespace kinet {

// Whether a file is a solver file: it has fields that only solver files have. Throws Error with
// every syntax error.
bool is_solver_file(const std::string& path);

// Throws Error in one line when the file is missing, or a net where a solver is wanted and the
// reverse: else every field of it would be an error. `what` takes the file: "train".
void require_solver_file(const std::string& path, const std::string& what);
void require_net_file(const std::string& path, const std::string& what);

// A row for each layer: type, output shapes, parameters, memory of its own, multiply-adds, modes;
// then the totals.
std::string layer_table(const Net& net);

// Reads one batch through every data layer; a line for each: "data: 60,000 images ...".
std::string read_first_batch(Net& net, int threads);

// A layer that takes labels from a data layer.
struct LabelUse {
  BatchSource* source = nullptr;
  std::string data_layer, reader;
  int64_t classes = 0;
  bool several_readers = false;  // then `reader` is "accuracy' and 'loss"
};
std::vector<LabelUse> find_label_uses(Net& net);

// "labels of 'data' lie in [0, 10), as 'loss' asks"; throws Error with the
// first item whose label does not.
std::string check_labels_of(const LabelUse& use);

}  // namespace kinet
