#include "src/base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr size_t kHugeFrom = 2 * kHugePage;  // smaller blocks would waste most of a page

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::byte* map_file(int fd, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// A file that its owner could make shorter would end whoever has mapped it with SIGBUS.
constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedMemory::SharedMemory(size_t bytes, const std::string& name) : bytes_(bytes) {
  if (bytes < kHugeFrom || !map_huge(name)) map_plain(name);
  fcntl(fd_, F_ADD_SEALS, kFixedSize);
}

// Pages are reserved when they are mapped: without free ones this fails here, and not at a touch.
bool SharedMemory::map_huge(const std::string& name) {
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (fd < 0) return false;
  const size_t size = round_up(bytes_, kHugePage);
  std::byte* memory = ftruncate(fd, static_cast<off_t>(size)) == 0 ? map_file(fd, size) : nullptr;
  if (memory == nullptr) {
    close(fd);
    return false;
  }
  data_ = memory;
  mapped_ = size;
  fd_ = fd;
  huge_ = true;
  return true;
}

void SharedMemory::map_plain(const std::string& name) {
  mapped_ = round_up(bytes_ == 0 ? 1 : bytes_, kPage);
  fd_ = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(mapped_)) == 0) data_ = map_file(fd_, mapped_);
  if (data_ == nullptr) {
    const int error = errno;
    if (fd_ >= 0) close(fd_);
    fail_runtime("no shared memory for {} ({}): {}", name, human_bytes(bytes_),
                 std::strerror(error));
  }
  madvise(data_, mapped_, MADV_HUGEPAGE);  // a wish: /sys/kernel/mm/transparent_hugepage decides
}

SharedMemory SharedMemory::from_fd(int fd, size_t bytes) {
  SharedMemory out;
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) < bytes) {
    close(fd);
    fail_runtime("a shared memory file is shorter than the {} bytes it should have", bytes);
  }
  if (const int seals = fcntl(fd, F_GET_SEALS); seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    close(fd);
    fail_runtime("a shared memory file of another process has no fixed size");
  }
  out.bytes_ = bytes;
  out.mapped_ = static_cast<size_t>(status.st_size);
  out.fd_ = fd;
  out.data_ = map_file(fd, out.mapped_);
  if (out.data_ == nullptr) {
    fail_runtime("cannot map {} of another process: {}", human_bytes(bytes), std::strerror(errno));
  }
  return out;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, mapped_);
  if (fd_ >= 0) close(fd_);
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(fd_, other.fd_);
  std::swap(huge_, other.huge_);
}

}  // namespace kinet
