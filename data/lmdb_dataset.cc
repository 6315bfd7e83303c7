#include "data/lmdb_dataset.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "data/image_loader.h"
#include "data/lmdb_check.h"
#include "data/lmdb_env.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/proto/kinet/datum.pb.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

// Why mdb_env_open failed, in words for the owner of the files.
[[noreturn]] void fail_open(const std::string& path, int code) {
  switch (code) {
    case EACCES:
    case EPERM:
      fail("{}: the database may not be read by this user ({})", path, mdb_strerror(code));
    case EAGAIN:
    case EBUSY:
      fail("{}: the database is locked by another program ({})", path, mdb_strerror(code));
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_CORRUPTED:
      fail("{}: not an LMDB database, or a damaged one ({})", path, mdb_strerror(code));
    default:
      fail("{}: the database cannot be opened: {}", path, mdb_strerror(code));
  }
}

void check_kind(const std::string& path) {
  std::error_code ignored;
  KINET_CHECK(fs::exists(path, ignored), "{}: no such database", path);
  if (!fs::is_directory(path, ignored)) return;
  KINET_CHECK(!fs::exists(fs::path(path) / "CURRENT", ignored),
              "{}: a LevelDB database, which kinet does not read\nhint: make an LMDB of the images "
              "with 'kinet convert'",
              path);
  KINET_CHECK(fs::exists(fs::path(path) / "data.mdb", ignored),
              "{}: not an LMDB database: the folder has no data.mdb", path);
}

class LmdbDataset : public Dataset {
 public:
  LmdbDataset(const std::string& path, ColorMode mode) : path_(path), mode_(mode) {
    check_kind(path);
    check_lmdb_file(fs::is_directory(path) ? (fs::path(path) / "data.mdb").string() : path);
    env_ = make_environment();
    const unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | MDB_NORDAHEAD |
                           (fs::is_directory(path) ? 0 : MDB_NOSUBDIR);
    const int code = mdb_env_open(env_.get(), path.c_str(), flags, 0);
    if (code != MDB_SUCCESS) fail_open(path, code);
    index_entries();
    KINET_CHECK(!entries_.empty(), "{}: the database holds no items", path);
  }

  int64_t items() const override { return static_cast<int64_t>(entries_.size()); }
  void read(int64_t index, Sample& sample) const override;
  int64_t label(int64_t index) const override { return parse(index).label(); }
  std::string locate(int64_t index) const override {
    const MDB_val& key = entries_[index].key;
    return fmt::format("item {} of {} (key '{}')", index, path_,
                       std::string_view(static_cast<const char*>(key.mv_data), key.mv_size));
  }
  std::string describe() const override {
    return fmt::format("{} images from {}", with_commas(items()), path_);
  }

 private:
  // Points into the map, which stays as it is while the transaction is open.
  struct Entry {
    MDB_val key, value;
  };

  void index_entries();
  const Datum& parse(int64_t index) const;
  void decode(const Datum& datum, Sample& sample) const;
  void check_sizes(const Datum& datum, int64_t index) const;

  const std::string path_;
  const ColorMode mode_;
  EnvironmentPtr env_;
  TransactionPtr transaction_;
  std::vector<Entry> entries_;
};

// Walks the keys once. Values are only pointed to, not touched, so this reads little of the file;
// afterwards reading an item is a look at memory, which any thread may do.
void LmdbDataset::index_entries() {
  MDB_txn* transaction = nullptr;
  int code = mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &transaction);
  if (code != MDB_SUCCESS) fail_open(path_, code);
  transaction_.reset(transaction);
  MDB_dbi dbi = 0;
  code = mdb_dbi_open(transaction, nullptr, 0, &dbi);
  if (code != MDB_SUCCESS) fail_open(path_, code);
  MDB_cursor* opened = nullptr;
  code = mdb_cursor_open(transaction, dbi, &opened);
  if (code != MDB_SUCCESS) fail_open(path_, code);
  const CursorPtr cursor(opened);
  Entry entry{};
  while ((code = mdb_cursor_get(cursor.get(), &entry.key, &entry.value, MDB_NEXT)) == MDB_SUCCESS) {
    entries_.push_back(entry);
  }
  if (code != MDB_NOTFOUND) fail_open(path_, code);
}

void LmdbDataset::check_sizes(const Datum& d, int64_t index) const {
  const int64_t c = d.channels(), h = d.height(), w = d.width();
  constexpr int64_t kMaxSide = 1 << 20;  // three of them do not overflow 64 bits
  KINET_CHECK(c > 0 && h > 0 && w > 0 && c <= kMaxSide && h <= kMaxSide && w <= kMaxSide,
              "{}: impossible size {}x{}x{}", locate(index), c, h, w);
  const int64_t found =
      d.data().empty() ? d.float_data_size() : static_cast<int64_t>(d.data().size());
  KINET_CHECK(found == c * h * w, "{}: {}x{}x{} needs {} values, found {}", locate(index), c, h, w,
              c * h * w, found);
}

// Valid until this thread's next call: parsing again into the same message reuses its memory.
const Datum& LmdbDataset::parse(int64_t index) const {
  const MDB_val& value = entries_[index].value;
  thread_local Datum datum;
  const bool fits = value.mv_size <= std::numeric_limits<int>::max();
  KINET_CHECK(fits && datum.ParseFromArray(value.mv_data, static_cast<int>(value.mv_size)),
              "{}: not a Datum", locate(index));
  return datum;
}

void LmdbDataset::read(int64_t index, Sample& sample) const {
  const Datum& datum = parse(index);
  sample.label = datum.label();
  if (datum.encoded()) {
    try {
      decode(datum, sample);
    } catch (const Error& error) {
      fail("{}: {}", locate(index), error.what());
    }
    return;
  }
  check_sizes(datum, index);
  sample.channels = datum.channels();
  sample.height = datum.height();
  sample.width = datum.width();
  sample.interleaved = false;
  sample.bytes = nullptr;
  sample.floats = nullptr;
  if (datum.data().empty()) {
    sample.float_storage.assign(datum.float_data().begin(), datum.float_data().end());
    sample.floats = sample.float_storage.data();
  } else {
    sample.byte_storage.assign(datum.data().begin(), datum.data().end());
    sample.bytes = sample.byte_storage.data();
  }
}

void LmdbDataset::decode(const Datum& datum, Sample& sample) const {
  Image image;
  image.pixels.swap(sample.byte_storage);
  const std::string& bytes = datum.data();
  decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, mode_, image);
  sample.set_image(std::move(image.pixels), image.channels, image.height, image.width);
}

}  // namespace

std::shared_ptr<const Dataset> open_lmdb(const std::string& path, ColorMode mode) {
  return std::make_shared<LmdbDataset>(path, mode);
}

}  // namespace kinet
