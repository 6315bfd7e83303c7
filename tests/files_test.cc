// Files: only regular ones are read and replaced; nothing waits for a pipe that nobody writes to.
#include "src/base/files.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "data/idx.h"
#include "data/image_list.h"
#include "data/lmdb_dataset.h"
#include "data/mean.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

std::string make_pipe(const TemporaryFolder& folder, const std::string& name) {
  std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
  EXPECT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  return folder / name;
}

std::string make_socket(const TemporaryFolder& folder, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / name;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  return path;
}

// Before, the readers waited for ever here.
TEST(Files, ReadersTakeRegularFilesOnly) {
  const TemporaryFolder folder;
  const std::string pipe = make_pipe(folder, "pipe"), socket = make_socket(folder, "socket");
  make_pipe(folder, "db/data.mdb");
  const std::vector<std::function<void()>> readers = {
      [&] { read_file(pipe); },       [&] { read_file(socket); },        [&] { read_idx(pipe); },
      [&] { read_mean(pipe); },       [&] { open_lmdb(folder / "db"); }, [&] { open_lmdb(pipe); },
      [&] { read_image_list(pipe); },
  };
  for (const auto& reader : readers) EXPECT_CONTAINS(message_of(reader), "is not a regular file");
  EXPECT_EQ(message_of([&] { read_file(folder.str()); }),
            folder.str() + ": is a folder, not a file");
  EXPECT_EQ(message_of([&] { read_idx(folder.str()); }),
            folder.str() + ": is a folder, not a file");
}

TEST(Files, LinksToFilesAreRead) {
  const TemporaryFolder folder;
  folder.write("file", "abc");
  std::filesystem::create_symlink(folder / "file", folder / "link");
  EXPECT_EQ(read_file(folder / "link"), "abc");
}

TEST(Files, OnlyRegularFilesAreReplaced) {
  const TemporaryFolder folder;
  const std::string pipe = make_pipe(folder, "pipe");
  std::filesystem::create_symlink(pipe, folder / "link");
  for (const std::string& path : {pipe, folder / "link"}) {
    EXPECT_EQ(message_of([&] { write_file_atomic(path, "x"); }), path + ": is not a regular file");
  }
  struct stat status;
  ASSERT_EQ(::stat(pipe.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.str()), {}), 2);  // no rest
  write_file_atomic(folder / "file", "one");
  write_file_atomic(folder / "file", "two");
  EXPECT_EQ(read_file(folder / "file"), "two");
}

TEST(Files, ListedPipesAreFoundAtStart) {
  const TemporaryFolder folder;
  make_pipe(folder, "a.png");
  const std::string list = folder.write("list.txt", "a.png 0\n");
  ImageListOptions options;
  options.check_files = true;
  const std::string error = message_of([&] { open_image_list(list, options); });
  EXPECT_CONTAINS(error, "list.txt:1: ");
  EXPECT_CONTAINS(error, "a.png: is not a regular file");
}

}  // namespace
}  // namespace kinet
