// What the library says about its own build.
// ctest: labels=unit,core,smoke
#include "src/base/build_info.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace kinet {
namespace {

TEST(BuildInfo, VersionHasThreeNumbers) {
  const std::string version(build_info().version);
  int dots = 0;
  for (char c : version) {
    EXPECT_TRUE(c == '.' || std::isdigit(static_cast<unsigned char>(c))) << version;
    if (c == '.') ++dots;
  }
  EXPECT_EQ(dots, 2) << version;
}

TEST(BuildInfo, LineNamesEveryPart) {
  const BuildInfo& info = build_info();
  const std::string line = build_info_line();
  for (std::string_view part :
       {info.version, info.build_type, info.compiler, info.sanitize, info.commit}) {
    EXPECT_NE(line.find(part), std::string::npos) << line << " lacks " << part;
  }
  EXPECT_FALSE(info.compiler.empty());
  EXPECT_FALSE(info.commit.empty());
}

}  // namespace
}  // namespace kinet
