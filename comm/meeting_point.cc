#include "comm/meeting_point.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr const char* kNote = "rendezvous";
constexpr const char* kTemporary = "rendezvous.new";
constexpr size_t kMaxBytes = 1024;  // of a note or a token file

// The folder, or an empty descriptor when it is not there.
FileDescriptor open_folder(const std::string& folder) {
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    KINET_CHECK(errno == ENOENT, "{}: {}\nhint: ranks of this job meet there; remove it", folder,
                system_error(errno));
    return fd;
  }
  struct stat status {};
  const bool known = ::fstat(fd.get(), &status) == 0;
  KINET_CHECK(known && status.st_uid == geteuid() && (status.st_mode & 0077) == 0,
              "{}: belongs to another user, or others may look into it\nhint: ranks of this job "
              "meet there; remove it, or use --rendezvous and --token-file",
              folder);
  return fd;
}

std::string read_some(int fd) {
  std::string text(kMaxBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

// "" while `text` is not whole.
std::string take_line(std::string& text) {
  const size_t end = text.find('\n');
  if (end == std::string::npos) return "";
  const std::string line = text.substr(0, end);
  text.erase(0, end + 1);
  return line;
}

}  // namespace

MeetingPoint::MeetingPoint(std::string folder, const MeetingNote& note)
    : folder_(std::move(folder)) {
  KINET_CHECK(::mkdir(folder_.c_str(), 0700) == 0 || errno == EEXIST, "{}: {}", folder_,
              system_error(errno));
  const FileDescriptor fd = open_folder(folder_);
  const std::string text = note.address.text() + "\n" + note.token + "\n";
  ::unlinkat(fd.get(), kNote, 0);
  ::unlinkat(fd.get(), kTemporary, 0);
  const FileDescriptor file(
      ::openat(fd.get(), kTemporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const bool written =
      file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  KINET_CHECK(written && ::renameat(fd.get(), kTemporary, fd.get(), kNote) == 0,
              "{}: the address of the rendezvous cannot be written there: {}", folder_,
              system_error(errno));
}

MeetingPoint::~MeetingPoint() {
  ::unlink((folder_ + "/" + kNote).c_str());
  ::rmdir(folder_.c_str());
}

std::optional<MeetingNote> read_meeting_note(const std::string& folder) {
  const FileDescriptor fd = open_folder(folder);
  if (!fd) return std::nullopt;
  const FileDescriptor file(::openat(fd.get(), kNote, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text = read_some(file.get());
  const std::string address = take_line(text);
  const std::string token = take_line(text);
  if (address.empty() || token.empty()) return std::nullopt;
  return MeetingNote{parse_host_port(address, folder), token};
}

std::string read_token_file(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  KINET_CHECK(fd, "--token-file {}: {}", path, system_error(errno));
  struct stat status {};
  KINET_CHECK(::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode),
              "--token-file {}: is no regular file", path);
  KINET_CHECK(status.st_uid == geteuid() && (status.st_mode & 0077) == 0,
              "--token-file {}: others may read it, or it is another user's\nhint: chmod 600 {}",
              path, path);
  std::string text = read_some(fd.get()) + "\n";
  std::string token = take_line(text);
  while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
  KINET_CHECK(
      token.size() >= 16 && token.size() <= 400,
      "--token-file {}: its first line has {} bytes; a secret of 16 to 400 is needed\nhint: "
      "(umask 077; openssl rand -hex 16 > {})",
      path, token.size(), path);
  return token;
}

}  // namespace kinet
