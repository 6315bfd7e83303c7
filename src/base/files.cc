#include "src/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

// Closes on every path; close_checked() reports what close itself says (NFS reports here).
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool close_checked() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void check_regular(const struct stat& status, const fs::path& path) {
  KINET_CHECK(!S_ISDIR(status.st_mode), "{}: is a folder, not a file", path.string());
  KINET_CHECK(S_ISREG(status.st_mode), "{}: is not a regular file", path.string());
}

// A name no other writer uses: the process and a count within it.
fs::path temporary_name(const fs::path& path) {
  static std::atomic<unsigned> count{0};
  return path.string() + fmt::format(".tmp-{}-{}", ::getpid(), count++);
}

}  // namespace

void require_regular_file(const fs::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) check_regular(status, path);
}

// Looks before it opens, since opening a device can do something, and after it, since another file
// may have come in between. O_NONBLOCK: a pipe that came in between does not hold us up either.
std::string read_file(const fs::path& path) {
  require_regular_file(path);
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  KINET_CHECK(fd.get() >= 0 && ::fstat(fd.get(), &status) == 0, "{}: cannot be read: {}",
              path.string(), std::strerror(errno));
  check_regular(status, path);
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    KINET_CHECK(n >= 0, "{}: cannot be read: {}", path.string(), std::strerror(errno));
    if (n == 0) return bytes;
    bytes.append(block, static_cast<size_t>(n));
  }
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  require_regular_file(path);
  const fs::path temporary = temporary_name(path);
  Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() < 0) {
    fail_runtime("{}: cannot be written: {}", path.string(), std::strerror(errno));
  }
  const bool written = write_all(fd.get(), bytes) && ::fsync(fd.get()) == 0 && fd.close_checked() &&
                       ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    fail_runtime("{}: cannot be written: {}", path.string(), std::strerror(reason));
  }
}

void check_writable(const fs::path& folder, bool make, const std::string& name) {
  std::error_code error;
  if (make) fs::create_directories(folder, error);
  KINET_CHECK(!error, "{}: cannot be created: {}", folder.string(), error.message());
  KINET_CHECK(fs::is_directory(folder, error), "{}: no such folder\nhint: create it first",
              folder.string());
  const fs::path probe = temporary_name(folder / name);
  const Descriptor fd(::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  const int reason = errno;
  KINET_CHECK(fd.get() >= 0 || reason != ENAMETOOLONG, "{}: the name is too long", name);
  KINET_CHECK(fd.get() >= 0, "{}: nothing can be written there: {}", folder.string(),
              std::strerror(reason));
  ::unlink(probe.c_str());
}

}  // namespace kinet
