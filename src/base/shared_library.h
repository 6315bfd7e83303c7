// Parts of kinet that lie in libraries of their own, beside libkinet.so, because what they need is
// large or may be missing: opened when first used. Thread safety: all of it.
#pragma once

#include <string>

namespace kinet {

// What function `symbol` of `file` (in the folder of libkinet.so) stands for, or null with the
// reason in `why`. The library stays open until the process ends. With `global` its symbols serve
// the libraries that it opens itself.
void* open_own_library(const std::string& file, const std::string& symbol, std::string* why,
                       bool global = false);

}  // namespace kinet
