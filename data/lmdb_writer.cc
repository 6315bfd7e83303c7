#include "data/lmdb_writer.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "data/lmdb_env.h"
#include "src/base/check.h"
#include "src/proto/kinet/datum.pb.h"

namespace kinet {
namespace {

constexpr size_t kBlockItems = 1000;              // in one transaction
constexpr size_t kBlockBytes = size_t{32} << 20;  // pending at most, beyond one item
constexpr size_t kMaxKey = 511;                   // bytes; LMDB's own limit as Debian builds it

}  // namespace

struct LmdbWriter::State {
  std::string folder;
  size_t map_bytes = 0;
  EnvironmentPtr env;
  std::vector<std::pair<std::string, std::string>> pending;
  size_t pending_bytes = 0;

  void check(int code, const char* what) const {
    if (code != MDB_SUCCESS) fail_runtime("{}: {}: {}", folder, what, mdb_strerror(code));
  }

  // MDB_SUCCESS, or MDB_MAP_FULL after undoing everything.
  int write_pending() {
    MDB_txn* raw = nullptr;
    check(mdb_txn_begin(env.get(), nullptr, 0, &raw), "cannot be written");
    TransactionPtr transaction(raw);
    MDB_dbi dbi = 0;
    check(mdb_dbi_open(raw, nullptr, 0, &dbi), "cannot be written");
    for (auto& [key, value] : pending) {
      MDB_val k{key.size(), key.data()}, v{value.size(), value.data()};
      const int code = mdb_put(raw, dbi, &k, &v, MDB_APPEND);
      if (code == MDB_MAP_FULL) return code;
      KINET_CHECK(code != MDB_KEYEXIST, "{}: key '{}' is not greater than the one before", folder,
                  key);
      check(code, "cannot be written");
    }
    const int code = mdb_txn_commit(transaction.release());  // frees it in any case
    if (code != MDB_MAP_FULL) check(code, "cannot be written");
    return code;
  }

  void flush() {
    while (!pending.empty() && write_pending() == MDB_MAP_FULL) {
      map_bytes *= 2;
      check(mdb_env_set_mapsize(env.get(), map_bytes), "the map cannot grow");
    }
    pending.clear();
    pending_bytes = 0;
  }
};

LmdbWriter::LmdbWriter(const std::string& folder, size_t map_bytes)
    : state_(std::make_unique<State>()) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_runtime("{}: cannot be made: {}", folder, error.message());
  state_->folder = folder;
  state_->map_bytes = map_bytes;
  state_->env = make_environment();
  MDB_env* env = state_->env.get();
  state_->check(mdb_env_set_mapsize(env, map_bytes), "the map cannot be set up");
  // Nobody else knows the folder yet: no lock; and one sync at the end is enough.
  state_->check(mdb_env_open(env, folder.c_str(), MDB_NOLOCK | MDB_NOSYNC, 0664),
                "cannot be written");
}

LmdbWriter::~LmdbWriter() = default;

void LmdbWriter::put(const std::string& key, const std::string& value) {
  state_->pending.emplace_back(key, value);
  state_->pending_bytes += value.size();
  if (state_->pending.size() >= kBlockItems || state_->pending_bytes >= kBlockBytes) {
    state_->flush();
  }
}

void LmdbWriter::put(const std::string& key, const Datum& datum) {
  put(key, datum.SerializeAsString());
}

void LmdbWriter::finish() {
  state_->flush();
  state_->check(mdb_env_sync(state_->env.get(), 1), "cannot be written");
}

std::string datum_key(int64_t number, const std::string& name) {
  return fmt::format("{:08}_{}", number, name).substr(0, kMaxKey);
}

}  // namespace kinet
