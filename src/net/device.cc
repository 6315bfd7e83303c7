#include "src/net/device.h"

#include <cstdlib>
#include <string_view>

#include "src/base/check.h"
#include "src/base/shared_library.h"

namespace kinet {
namespace {

bool same_build(const BuildInfo& a, const BuildInfo& b) {
  return a.version == b.version && a.build_type == b.build_type && a.sanitize == b.sanitize &&
         a.commit == b.commit;
}

std::string backend_file() {
  const char* choice = std::getenv("KINET_CUDA_LIBRARY");
  if (choice == nullptr || std::string_view(choice).empty()) return "libkinet_cuda.so";
  const std::string_view name = choice;
  KINET_CHECK(name == "emulated" || name == "checked",
              "KINET_CUDA_LIBRARY={} in the environment: known are 'emulated' and 'checked'", name);
  return fmt::format("libkinet_cuda_{}.so", name);
}

DeviceBackend* open_backend(const std::string& file, std::string* why) {
  using Door = const BackendDoor* (*)();
  const auto enter = reinterpret_cast<Door>(open_own_library(file, kBackendSymbol, why));
  if (enter == nullptr) return nullptr;
  const BackendDoor* door = enter();
  if (same_build(door->build, build_info())) return &door->backend();
  *why = fmt::format("{} is of another build of kinet ({} of {}, this is {} of {})", file,
                     door->build.build_type, door->build.commit, build_info().build_type,
                     build_info().commit);
  return nullptr;
}

}  // namespace

DeviceBackend* find_cuda_backend(std::string* why) {
  static std::string reason;
  static DeviceBackend* const opened = open_backend(backend_file(), &reason);
  *why = reason;
  return opened;
}

}  // namespace kinet
