#include "src/base/shared_library.h"

#include <gtest/gtest.h>

#include <string>

namespace kinet {
namespace {

TEST(SharedLibraryTest, SaysOnceWhichFileCannotBeOpenedAndWhy) {
  std::string why;
  EXPECT_EQ(open_own_library("libkinet_none.so", "none", &why), nullptr);
  const size_t name = why.find("libkinet_none.so");
  ASSERT_NE(name, std::string::npos) << why;
  EXPECT_EQ(why.find("libkinet_none.so", name + 1), std::string::npos) << why;
  EXPECT_NE(why.find("cannot be opened: cannot open shared object file: No such file"),
            std::string::npos)
      << why;
}

}  // namespace
}  // namespace kinet
