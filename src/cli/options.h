// Flags that several commands share, so that they read and behave the same everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kinet {

// --threads N: threads of a layer; 0, the default, means all cores.
void add_threads_flag(CLI::App& app, int& threads);
// What --threads 0 stands for on this machine.
int resolve_threads(int threads);

// --weights a.caffemodel,b.caffemodel (also several times).
void add_weights_flag(CLI::App& app, std::vector<std::string>& weights);

// The text as one word of a shell's command: quoted where it must be.
std::string shell_word(const std::string& text);

// Throws when the file is missing or a folder, before anything slow begins. `what` says which
// argument it is: "solver".
void require_file(const std::string& path, const std::string& what);

}  // namespace kinet
