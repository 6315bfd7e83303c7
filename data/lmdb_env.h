// Owners for LMDB's handles, and its error codes as errors. Include in .cc files only.
//
// Thread safety: none.
#pragma once

#include <lmdb.h>

#include <memory>
#include <string>

namespace kinet {

struct CloseEnvironment {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
using EnvironmentPtr = std::unique_ptr<MDB_env, CloseEnvironment>;

struct AbortTransaction {
  void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
};
using TransactionPtr = std::unique_ptr<MDB_txn, AbortTransaction>;

struct CloseCursor {
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using CursorPtr = std::unique_ptr<MDB_cursor, CloseCursor>;

inline EnvironmentPtr make_environment() {
  MDB_env* env = nullptr;
  if (mdb_env_create(&env) != MDB_SUCCESS) throw std::bad_alloc();
  return EnvironmentPtr(env);
}

}  // namespace kinet
