// The only file that includes the generated header, so that a new commit compiles one file.
#include "src/base/build_info.h"

#include <build_info.h>

namespace kinet {

const BuildInfo& build_info() {
  static constexpr BuildInfo kInfo{KINET_BUILD_VERSION, KINET_BUILD_TYPE, KINET_BUILD_COMPILER,
                                   KINET_BUILD_SANITIZE, KINET_BUILD_COMMIT};
  return kInfo;
}

std::string build_info_line() {
  const BuildInfo& info = build_info();
  std::string line = "kinet ";
  line.append(info.version).append(" (").append(info.commit).append(", ");
  line.append(info.build_type).append(", ").append(info.compiler);
  if (!info.sanitize.empty()) line.append(", sanitizers ").append(info.sanitize);
  return line.append(")");
}

}  // namespace kinet
