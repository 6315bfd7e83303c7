// What the commands that train have in common: what they print, the run directory that is taken
// away again when nothing comes of it, small flags.
// Thread safety: none; each object is used by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "src/cli/console.h"
#include "src/net/net.h"
#include "src/solver/observer.h"

namespace kinet {

// Of a worker that is not the first: only what went wrong, and what it had to save.
class WorkerLog : public SolverObserver {
 public:
  void on_warning(const std::string& text) override;
  void on_snapshot(int64_t iteration, const std::string& path) override;
};

// Of the first one, as console and --quiet say.
std::unique_ptr<SolverObserver> make_train_log(Console& console, bool quiet);

// "Net: LeNet, 9 layers, 431,080 parameters, 147 M multiply-adds a batch, 12 MB of activations"
std::string net_line(Net& net);

// A folder that was made for a run which then could not begin is taken away again, if empty.
class FolderGuard {
 public:
  // REQUIRES: called before anything makes the folder.
  explicit FolderGuard(std::filesystem::path folder);
  ~FolderGuard();
  FolderGuard(const FolderGuard&) = delete;
  FolderGuard& operator=(const FolderGuard&) = delete;
  void keep() { kept_ = true; }

 private:
  std::filesystem::path folder_;
  bool made_here_ = false, kept_ = false;
};

// CLI11 would take -1 for 18446744073709551615. Seeds go as far as random_seed does.
uint64_t seed_of(const std::string& text);

// " --flag value" for the command that repeats a run; nothing for an empty value.
void add_flag(const std::string& flag, const std::string& value, std::string& out);

}  // namespace kinet
