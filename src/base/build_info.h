// What this build of the library is: shown by `kinet --version`, saved with every run, and compared
// between the processes of one run and between the program and its plug-ins.
//
// Thread safety: constants.
#pragma once

#include <string>
#include <string_view>

namespace kinet {

struct BuildInfo {
  std::string_view version;     // "0.1.0", from CMake's project()
  std::string_view build_type;  // "Release", "Debug", ...
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view sanitize;    // "" or "address,undefined", as given to KINET_SANITIZE
  std::string_view commit;      // short git hash, "unknown" outside a git tree
};

// The build of libkinet.so itself, not of whoever calls it.
const BuildInfo& build_info();

// One line for people: "kinet 0.1.0 (0123456789ab, Release, GNU 12.2.0)".
std::string build_info_line();

}  // namespace kinet
