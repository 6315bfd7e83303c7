#include "src/base/check.h"

namespace kinet::detail {

void broken_invariant(const char* condition, const char* file, int line) {
  fail_runtime("{}:{}: internal invariant broken: {}\nhint: this is a defect of kinet; report it",
               file, line, condition);
}

}  // namespace kinet::detail
