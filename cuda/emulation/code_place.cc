// Where in the sources a code address lies.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "cuda/emulation/checker.h"

namespace kinet::emulation {
namespace {

// "relu.cu:12" from a line of addr2line; "" where it knows no place.
std::string short_place(const std::string& line) {
  std::string text = std::filesystem::path(line).filename().string();
  text.erase(text.find_last_not_of(" \n") + 1);
  text.erase(std::min(text.find(" (disc"), text.size()));
  // Compilers may name the generated one-line file that includes the .cu file.
  if (const size_t suffix = text.find(".cu.cpp:"); suffix != text.npos) {
    text.erase(suffix + 3, 4);
  }
  return line[0] == '?' || text.ends_with(":?") || text.ends_with(":0") ? "" : text;
}

struct Places {
  std::string address;             // module+offset
  std::vector<std::string> lines;  // innermost first, then where that is called
};

// Reports and tables are rare, so binutils' addr2line is asked; where it is missing the address
// must do.
Places places_of(const void* pc) {
  Dl_info info{};
  if (dladdr(pc, &info) == 0 || info.dli_fname == nullptr) return {fmt::format("{}", pc), {}};
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  // The return address belongs to the next statement; one byte before it is the call itself.
  const uintptr_t offset = reinterpret_cast<uintptr_t>(pc) - base - 1;
  const std::string module =
      std::filesystem::exists(info.dli_fname) ? info.dli_fname : "/proc/self/exe";
  Places places;
  places.address =
      fmt::format("{}+{:#x}", std::filesystem::path(module).filename().string(), offset);
  const std::string command = fmt::format("addr2line -i -e '{}' {:#x} 2>/dev/null", module, offset);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char line[512] = "";
  while (pipe && std::fgets(line, sizeof(line), pipe.get()) != nullptr) {
    if (const std::string place = short_place(line); !place.empty()) places.lines.push_back(place);
  }
  return places;
}

}  // namespace

std::string place_of(const void* pc) {
  const Places places = places_of(pc);
  return places.lines.empty() ? places.address : places.lines.front();
}

std::string lines_of(const void* pc) {
  const Places places = places_of(pc);
  if (places.lines.empty()) return places.address;
  // A kernel is called by the launch (launch.h): its own line is the last in another file.
  size_t kernel = 0;
  for (size_t i = 0; i < places.lines.size(); ++i) {
    const bool launcher = places.lines[i].starts_with("launch.h:") ||
                          places.lines[i].starts_with("tuple:") ||
                          places.lines[i].starts_with("invoke.h:");
    if (!launcher) kernel = i;
  }
  if (kernel == 0) return places.lines.front();
  return places.lines.front() + " in " + places.lines[kernel];
}

}  // namespace kinet::emulation
