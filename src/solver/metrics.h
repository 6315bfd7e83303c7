// metrics.jsonl: one JSON object a line for every round, display, test, snapshot, note and end of a
// run. The schema is in docs/run_directory.md; a test holds the two together.
//
// Thread safety: none; the solver's thread writes.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/solver/observer.h"
#include "src/solver/round_history.h"

namespace kinet {

// Appends to the file; every record is flushed to the system before the call returns, so that a
// killed run loses none. Throws a run-time Error when the file cannot be written.
class MetricsWriter : public SolverObserver {
 public:
  explicit MetricsWriter(const std::filesystem::path& path);

  void on_start(const StartRecord& record) override;
  void on_round(const RoundRecord& record) override;
  void on_display(const DisplayRecord& record) override;
  void on_test(const TestRecord& record) override;
  void on_snapshot(int64_t iteration, const std::string& path) override;
  void on_note(const std::string& text) override;
  void on_warning(const std::string& text) override;
  void on_finish(const FinishRecord& record) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write_line(std::string line);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// What a run has told so far; the report is drawn from it.
struct RunHistory {
  StartRecord start;
  std::vector<DisplayRecord> displays;
  std::vector<TestRecord> tests;
  RoundHistory rounds;
  std::optional<FinishRecord> finish;

  // A run that goes on from iteration N forgets what a former one said about later iterations; one
  // that begins anew forgets everything.
  void begin(const StartRecord& record);
};

// Reads what MetricsWriter wrote; empty when there is no such file. A line that is not a record
// (the last one of a run that was killed) is skipped.
RunHistory read_metrics(const std::filesystem::path& path);

}  // namespace kinet
