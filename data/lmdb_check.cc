#include "data/lmdb_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"

namespace kinet {
namespace {

// The format, in bytes. A page begins with its number (8), 2 unused, its flags (2), and the ends of
// its table of nodes and of its free space (2 and 2); the table follows, then the nodes.
constexpr uint64_t kPageHeader = 16, kNodeHeader = 8;
constexpr unsigned kBranch = 0x01, kLeaf = 0x02, kMeta = 0x08;
constexpr unsigned kKinds = 0x6f;       // all bits that name a kind of page
constexpr unsigned kLarge = 0x01;       // a node's value lies on pages of its own
constexpr unsigned kDuplicates = 0x04;  // of a database: several values a key
constexpr uint64_t kMagic = 0xBEEFC0DE, kVersion = 1;
constexpr uint64_t kNoPage = ~uint64_t{0};
constexpr uint64_t kMaxDepth = 32;               // LMDB's own limit
constexpr uint64_t kMaxMap = uint64_t{1} << 46;  // 64 TB: what a process can map
constexpr uint64_t kMetaBytes = 152;

// What a header says of the database.
struct Header {
  uint64_t map_bytes, page_bytes, flags, depth, entries, root, last_page, transaction;
};

class LmdbFile {
 public:
  explicit LmdbFile(const std::string& path) : path_(path) {
    require_regular_file(path);
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    KINET_CHECK(fd_ >= 0, "{}: the database may not be read: {}", path, std::strerror(errno));
  }
  ~LmdbFile() { ::close(fd_); }
  LmdbFile(const LmdbFile&) = delete;
  LmdbFile& operator=(const LmdbFile&) = delete;

  void check() {
    struct stat status;
    KINET_CHECK(::fstat(fd_, &status) == 0, "{}: {}", path_, std::strerror(errno));
    size_ = static_cast<uint64_t>(status.st_size);
    KINET_CHECK(size_ > 0, "{}: is empty, not a database", path_);
    const Header first = read_header(0);
    const uint64_t bytes = first.page_bytes;
    const bool power = bytes >= 512 && bytes <= 65536 && (bytes & (bytes - 1)) == 0;
    if (!power) damaged("impossible page size in its header");
    const Header second = read_header(bytes);
    header_ = first.transaction < second.transaction ? second : first;  // the newer one counts
    if (header_.page_bytes != bytes) damaged("its two headers disagree");
    check_header();
    seen_.assign(header_.last_page + 1, false);
    if (header_.root != kNoPage) check_page(header_.root, 1);
    if (found_ != header_.entries) {
      damaged(fmt::format("its header counts {} items, but its pages {}", header_.entries, found_));
    }
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    fail(
        "{}: a damaged LMDB database: {}\nhint: make it again with 'kinet convert', or take a copy",
        path_, what);
  }

  // False at the end of the file.
  bool read(uint64_t offset, uint8_t* out, uint64_t bytes) const {
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t n = ::pread(fd_, out + done, bytes - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      KINET_CHECK(n >= 0, "{}: cannot be read: {}", path_, std::strerror(errno));
      if (n == 0) return false;
      done += static_cast<uint64_t>(n);
    }
    return true;
  }

  static uint64_t number(const uint8_t* at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | at[i];
    return value;
  }

  Header read_header(uint64_t offset) const {
    uint8_t page[kMetaBytes];
    const bool whole = read(offset, page, kMetaBytes);
    KINET_CHECK(whole || offset > 0, "{}: not an LMDB database: {} bytes are too few", path_,
                size_);
    if (!whole) damaged("truncated in its second header");
    const bool known = (number(page + 10, 2) & kMeta) != 0 && number(page + 16, 4) == kMagic;
    KINET_CHECK(known || offset > 0, "{}: not an LMDB database, or a damaged one", path_);
    if (!known) damaged("its second header is not one");
    const uint64_t version = number(page + 20, 4);
    KINET_CHECK(version == kVersion, "{}: an LMDB database of format {}, but kinet reads format {}",
                path_, version, kVersion);
    return {number(page + 32, 8),  number(page + 40, 4),  number(page + 92, 2),
            number(page + 94, 2),  number(page + 120, 8), number(page + 128, 8),
            number(page + 136, 8), number(page + 144, 8)};
  }

  void check_header() const {
    KINET_CHECK((header_.flags & kDuplicates) == 0,
                "{}: a database with several values a key, which kinet does not read", path_);
    if (header_.last_page < 1 || header_.last_page > kMaxMap / header_.page_bytes) {
      damaged("impossible number of pages in its header");
    }
    const uint64_t expected = (header_.last_page + 1) * header_.page_bytes;
    KINET_CHECK(size_ >= expected, "{}: truncated: {} bytes expected, found {}", path_,
                with_commas(static_cast<int64_t>(expected)),
                with_commas(static_cast<int64_t>(size_)));
    if (header_.map_bytes > kMaxMap) damaged("impossible size of its map");
    const bool empty = header_.root == kNoPage;
    if (header_.depth > kMaxDepth || empty != (header_.depth == 0)) {
      damaged("impossible depth in its header");
    }
  }

  // The page and all below it.
  void check_page(uint64_t index, uint64_t level) {
    if (index < 2 || index > header_.last_page) damaged(fmt::format("no page {}", index));
    if (seen_[index]) damaged(fmt::format("page {} is reached twice", index));
    seen_[index] = true;
    std::vector<uint8_t> page(header_.page_bytes);
    const bool whole = read(index * header_.page_bytes, page.data(), page.size());
    if (!whole) damaged("truncated");
    const bool leaf = level == header_.depth;
    const uint64_t table_end = number(&page[12], 2), nodes_begin = number(&page[14], 2);
    const bool good = number(&page[0], 8) == index &&
                      (number(&page[10], 2) & kKinds) == (leaf ? kLeaf : kBranch) &&
                      table_end >= kPageHeader + (leaf ? 2 : 4) && table_end % 2 == 0 &&
                      table_end <= nodes_begin && nodes_begin <= page.size();
    if (!good) damaged(fmt::format("page {}", index));
    for (uint64_t entry = kPageHeader; entry < table_end; entry += 2) {
      const uint64_t at = number(&page[entry], 2);
      if (at < nodes_begin || at % 2 != 0 || at + kNodeHeader > page.size()) {
        damaged(fmt::format("page {}", index));
      }
      leaf ? check_item(page, at) : check_branch(page, at, level);
    }
  }

  // A node: 2 + 2 bytes of size or page number, 2 of flags or page number, 2 of the key's size;
  // key.
  void check_branch(const std::vector<uint8_t>& page, uint64_t at, uint64_t level) {
    const uint64_t key = number(&page[at + 6], 2);
    if (at + kNodeHeader + key > page.size()) damaged("a key runs over the end of its page");
    check_page(number(&page[at], 6), level + 1);
  }

  void check_item(const std::vector<uint8_t>& page, uint64_t at) {
    const uint64_t size = number(&page[at], 4), flags = number(&page[at + 4], 2);
    const uint64_t value = at + kNodeHeader + number(&page[at + 6], 2);
    const uint64_t inside = flags == kLarge ? 8 : size;  // bytes on this page
    ++found_;
    if (flags > kLarge) damaged(fmt::format("item {} is of no known kind", found_ - 1));
    if (value + inside > page.size()) {
      damaged(fmt::format("item {} runs over the end of its page", found_ - 1));
    }
    if (flags != kLarge) return;
    const uint64_t first = number(&page[value], 8);
    const uint64_t pages = (kPageHeader - 1 + size) / header_.page_bytes + 1;
    if (first < 2 || first > header_.last_page || pages > header_.last_page + 1 - first) {
      damaged(fmt::format("item {} lies outside the file", found_ - 1));
    }
  }

  const std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0, found_ = 0;  // bytes of the file; items so far
  Header header_{};
  std::vector<bool> seen_;  // pages
};

}  // namespace

void check_lmdb_file(const std::string& file) { LmdbFile(file).check(); }

}  // namespace kinet
