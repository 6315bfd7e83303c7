#include "src/base/shared_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "src/base/build_info.h"

namespace kinet {
namespace {

// The folder of libkinet.so, in which its parts lie, built and installed.
std::filesystem::path own_folder() {
  Dl_info info{};
  const auto* own = reinterpret_cast<const void*>(&build_info);
  if (dladdr(own, &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

}  // namespace

void* open_own_library(const std::string& file, const std::string& symbol, std::string* why,
                       bool global) {
  const std::filesystem::path path = own_folder() / file;
  void* handle = dlopen(path.c_str(), RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (handle == nullptr) {
    const char* reason = dlerror();  // one call: it clears itself
    std::string said = reason ? reason : "unknown reason";
    const std::string prefix = path.string() + ": ";  // it names the file now and then
    if (said.starts_with(prefix)) said.erase(0, prefix.size());
    *why = path.string() + " cannot be opened: " + said;
    return nullptr;
  }
  void* found = dlsym(handle, symbol.c_str());
  if (found == nullptr) *why = path.string() + ": not that part of kinet";
  return found;
}

}  // namespace kinet
