// Memory that other processes of this machine can map too: an anonymous file (memfd), mapped.
//
// Arenas whose bytes travel are made of it, so that every transport can use them: shm maps the file
// in the peer, verbs registers the pages. Large blocks lie on huge pages when the system has any
// free. Contents start as zeros. The size of the file is sealed: a mapping is good for ever. The
// file vanishes with its last user: nothing is left on a disk.
//
// Ownership: move-only; the destructor unmaps and closes. Thread safety: none needed after making.
#pragma once

#include <cstddef>
#include <string>

namespace kinet {

class SharedMemory {
 public:
  SharedMemory() = default;
  // `name` shows in /proc/<pid>/maps. Throws a run-time Error when the system has no more.
  SharedMemory(size_t bytes, const std::string& name);
  // Maps a file received from another process, all of its `bytes`; takes over the descriptor.
  // Throws a run-time Error when the file is shorter, or could become so.
  static SharedMemory from_fd(int fd, size_t bytes);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }
  bool huge_pages() const { return huge_; }

 private:
  void swap(SharedMemory& other) noexcept;
  bool map_huge(const std::string& name);
  void map_plain(const std::string& name);

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;   // as asked for
  size_t mapped_ = 0;  // rounded up to whole pages
  int fd_ = -1;
  bool huge_ = false;
};

}  // namespace kinet
