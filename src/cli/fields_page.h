// The reference of all declared fields as Markdown: docs/model_files.md, and `kinet fields`.
//
// It is made from the declarations that files are checked against, so the two cannot differ.
// Thread safety: pure functions over the registries.
#pragma once

#include <string>
#include <vector>

namespace kinet {

// The whole page: solver, net, the fields of all layers, every layer type, and the messages that
// several of them share.
std::string fields_page();

// One section: "solver", "net", "layer", a layer type ("Convolution") or a shared message
// ("weight_filler"). Throws Error with the nearest name when there is none.
std::string fields_section(const std::string& name);

}  // namespace kinet
