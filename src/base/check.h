// The one error type of kinet and the checks that throw it.
//
// Errors are thrown where they are first known, described once, and printed once by main().
// A message says what is wrong, where (file:line:column of the prototxt when there is one), and
// what to do; a remedy goes on its own line that begins with "hint: ".
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace kinet {

class Error : public std::runtime_error {
 public:
  // kUser: wrong input, found at set-up (exit status 2). kRuntime: failed while running (1).
  enum class Kind { kUser, kRuntime };

  explicit Error(const std::string& message, Kind kind = Kind::kUser)
      : std::runtime_error(message), kind_(kind) {}

  Kind kind() const { return kind_; }
  int exit_status() const { return kind_ == Kind::kUser ? 2 : 1; }

 private:
  Kind kind_;
};

// Throws a set-up error: fail("{}: no such file", path).
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), Error::Kind::kUser);
}

// Throws a run-time failure (full disk, diverged training, lost file).
template <class... Args>
[[noreturn]] void fail_runtime(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), Error::Kind::kRuntime);
}

namespace detail {
[[noreturn]] void broken_invariant(const char* condition, const char* file, int line);
}

}  // namespace kinet

// Checks what a user can get wrong; the message is for that user.
#define KINET_CHECK(condition, ...)               \
  do {                                            \
    if (!(condition)) ::kinet::fail(__VA_ARGS__); \
  } while (false)

// Checks what only a programmer can get wrong; off in Release builds.
#ifdef NDEBUG
#define KINET_DCHECK(condition) ((void)0)
#else
#define KINET_DCHECK(condition) \
  ((condition) ? (void)0 : ::kinet::detail::broken_invariant(#condition, __FILE__, __LINE__))
#endif
