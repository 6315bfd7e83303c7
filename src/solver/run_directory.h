// The folder of one training run: effective solver and net, metrics.jsonl, TensorBoard events,
// report.html; the solver writes its snapshots below it. What each file holds:
// docs/run_directory.md.
//
// Nothing in it is needed for training: a file that cannot be written (full disk) is warned of once
// and left alone from then on. Thread safety: none; the solver's thread writes.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/solver/metrics.h"
#include "src/solver/observer.h"
#include "src/solver/report.h"

namespace kinet {

class TensorboardWriter;

// The name of a run before its date: of the solver file's folder, else of the net.
std::string run_name(const std::string& solver_path, const std::string& net_name);

// "runs/lenet-20261129-142649": named after the folder of the solver file, or after the net when
// the file has none; -2, -3 ... is added until nothing of that name exists. The folder is made, so
// that two runs that begin in the same second get one each.
std::filesystem::path make_run_folder(const std::string& solver_path, const std::string& net_name);

// Throws Error when `folder` holds a run already that is not gone on with, that is when `resume` (a
// .solverstate, or "") does not lie in it.
void refuse_used_folder(const std::filesystem::path& folder, const std::string& resume);

class RunDirectory : public SolverObserver {
 public:
  using Warn = std::function<void(const std::string&)>;

  // Makes the folder; a folder that cannot be written to is a set-up Error.
  RunDirectory(std::filesystem::path folder, Warn warn);
  ~RunDirectory() override;

  const std::filesystem::path& folder() const { return folder_; }
  // Saves an effective file and shows it in the report.
  void save(const std::string& name, const std::string& text);

  // The run ended with an error: kept in metrics.jsonl and told by the report.
  void on_failure(int64_t iteration, const std::string& message);

  void on_start(const StartRecord& record) override;
  void on_round(const RoundRecord& record) override;
  void on_display(const DisplayRecord& record) override;
  void on_test(const TestRecord& record) override;
  void on_snapshot(int64_t iteration, const std::string& path) override;
  void on_note(const std::string& text) override;
  void on_warning(const std::string& text) override;
  void on_finish(const FinishRecord& record) override;

 private:
  // A file of the folder, gone when writing to it failed.
  template <class Writer, class Action>
  void try_write(std::unique_ptr<Writer>& writer, const char* file, const Action& action);
  void warn_lost(const std::string& file, const std::string& reason);
  void write_report();

  std::filesystem::path folder_;
  Warn warn_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<TensorboardWriter> tensorboard_;
  bool started_ = false, report_works_ = true;
  std::string last_snapshot_;
  std::vector<std::string> early_notes_;  // told before on_start
  RunHistory history_;
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace kinet
