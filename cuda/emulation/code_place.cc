// Where in the sources a code address lies.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cuda/emulation/checker.h"

namespace kinet::emulation {

// Reports are rare, so binutils' addr2line is asked; where it is missing the address must do.
std::string place_of(const void* pc) {
  Dl_info info{};
  if (dladdr(pc, &info) == 0 || info.dli_fname == nullptr) return fmt::format("{}", pc);
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  // The return address belongs to the next statement; one byte before it is the call itself.
  const uintptr_t offset = reinterpret_cast<uintptr_t>(pc) - base - 1;
  const std::string module =
      std::filesystem::exists(info.dli_fname) ? info.dli_fname : "/proc/self/exe";
  const std::string command = fmt::format("addr2line -e '{}' {:#x} 2>/dev/null", module, offset);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char line[512] = "";
  if (pipe && std::fgets(line, sizeof(line), pipe.get()) != nullptr && line[0] != '?') {
    std::string text = std::filesystem::path(line).filename().string();
    text.erase(text.find_last_not_of(" \n") + 1);
    text.erase(std::min(text.find(" (disc"), text.size()));
    // Compilers may name the generated one-line file that includes the .cu file.
    if (const size_t suffix = text.find(".cu.cpp:"); suffix != text.npos) {
      text.erase(suffix + 3, 4);
    }
    if (!text.ends_with(":?") && !text.ends_with(":0")) return text;
  }
  return fmt::format("{}+{:#x}", std::filesystem::path(module).filename().string(), offset);
}

}  // namespace kinet::emulation
