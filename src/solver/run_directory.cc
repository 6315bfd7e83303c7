// Names the folder, opens its files, and goes on without those that fail.
#include "src/solver/run_directory.h"

#include <cctype>
#include <ctime>
#include <limits>

#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/solver/tensorboard.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxSameName = 1000;  // runs that begin in one second

std::string local_time(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

// Letters, digits, '-', '_' and '.' stay; anything else would have to be quoted in a shell.
std::string file_name_of(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(u) || c == '_' || c == '-' || c == '.';
    out += plain ? static_cast<char>(std::tolower(u)) : '-';
  }
  while (!out.empty() && out.front() == '.') out.erase(out.begin());
  return out.empty() ? "run" : out;
}

}  // namespace

std::string run_name(const std::string& solver_path, const std::string& net_name) {
  const std::string folder = fs::path(solver_path).parent_path().filename().string();
  const bool named = !folder.empty() && folder != "." && folder != "..";
  return file_name_of(named ? folder : net_name);
}

fs::path make_run_folder(const std::string& solver_path, const std::string& net_name) {
  const fs::path stem =
      fs::path("runs") / (run_name(solver_path, net_name) + "-" + local_time("%Y%m%d-%H%M%S"));
  std::error_code error;
  fs::create_directories("runs", error);
  for (int count = 1; !error && count < kMaxSameName; ++count) {
    const fs::path path = count == 1 ? stem : fs::path(stem.string() + fmt::format("-{}", count));
    if (fs::create_directory(path, error)) return path;
  }
  fail("{}: cannot be created: {}\nhint: --out FOLDER puts the run directory elsewhere",
       stem.string(), error.message());
}

void refuse_used_folder(const fs::path& folder, const std::string& resume) {
  std::error_code error;
  fs::path state;  // the newest
  bool used = fs::exists(folder / "metrics.jsonl", error);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".solverstate") continue;
    used = true;
    if (state.empty() || entry.last_write_time(error) > fs::last_write_time(state, error)) {
      state = entry.path();
    }
  }
  if (!used) return;
  if (!resume.empty()) {
    const fs::path inside =
        fs::weakly_canonical(resume, error).lexically_relative(fs::weakly_canonical(folder, error));
    if (!inside.empty() && *inside.begin() != "..") return;
  }
  fail(
      "--out {}: a run lies there already\nhint: --resume {} goes on with it; another --out leaves "
      "it as it is",
      folder.string(), state.empty() ? "STATE.solverstate" : state.string());
}

RunDirectory::RunDirectory(fs::path folder, Warn warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  check_writable(folder_, true);
}

RunDirectory::~RunDirectory() = default;

void RunDirectory::warn_lost(const std::string& file, const std::string& reason) {
  const std::string text = fmt::format("{} is not written any more: {}", file, reason);
  warn_(text);
}

template <class Writer, class Action>
void RunDirectory::try_write(std::unique_ptr<Writer>& writer, const char* file,
                             const Action& action) {
  if (!writer) return;
  try {
    action(*writer);
  } catch (const std::exception& error) {
    writer.reset();
    warn_lost(file, error.what());
  }
}

void RunDirectory::save(const std::string& name, const std::string& text) {
  files_.emplace_back(name, text);
  try {
    write_file_atomic(folder_ / name, text);
  } catch (const Error& error) {
    warn_(error.what());
  }
}

// What a former run in this folder has recorded is read before the new run's first line is added.
void RunDirectory::on_start(const StartRecord& record) {
  const fs::path metrics = folder_ / "metrics.jsonl";
  try {
    history_ = read_metrics(metrics);
    metrics_ = std::make_unique<MetricsWriter>(metrics);
    tensorboard_ = std::make_unique<TensorboardWriter>(folder_ / event_file_name());
  } catch (const std::exception& error) {
    warn_lost("the run directory", error.what());
  }
  history_.begin(record);
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_start(record); });
  started_ = true;
  for (const std::string& note : early_notes_) on_note(note);
  write_report();
}

void RunDirectory::on_round(const RoundRecord& record) {
  history_.rounds.add(record);
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_round(record); });
}

void RunDirectory::on_display(const DisplayRecord& record) {
  history_.displays.push_back(record);
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_display(record); });
  try_write(tensorboard_, "the TensorBoard file", [&](auto& w) { w.on_display(record); });
}

void RunDirectory::on_test(const TestRecord& record) {
  history_.tests.push_back(record);
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_test(record); });
  try_write(tensorboard_, "the TensorBoard file", [&](auto& w) { w.on_test(record); });
  write_report();
}

void RunDirectory::on_snapshot(int64_t iteration, const std::string& path) {
  last_snapshot_ = path;
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_snapshot(iteration, path); });
}

void RunDirectory::on_note(const std::string& text) {
  if (!started_) return early_notes_.push_back(text);
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_note(text); });
}

void RunDirectory::on_warning(const std::string& text) {
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_warning(text); });
}

void RunDirectory::on_failure(int64_t iteration, const std::string& message) {
  on_warning(message);
  if (history_.finish) return;  // it failed after its end
  FinishRecord record;
  record.iteration = iteration;
  if (!history_.displays.empty()) record.seconds = history_.displays.back().seconds;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.last_snapshot = last_snapshot_;
  record.reason = "failed: " + message.substr(0, message.find('\n'));
  on_finish(record);
}

void RunDirectory::on_finish(const FinishRecord& record) {
  history_.finish = record;
  try_write(metrics_, "metrics.jsonl", [&](auto& writer) { writer.on_finish(record); });
  write_report();
}

void RunDirectory::write_report() {
  if (!report_works_) return;
  const fs::path absolute = fs::absolute(folder_).lexically_normal();
  const fs::path name =
      absolute.has_filename() ? absolute.filename() : absolute.parent_path().filename();
  try {
    write_file_atomic(folder_ / "report.html",
                      render_report(history_, {name.string(), build_info_line(), files_}));
  } catch (const std::exception& error) {
    report_works_ = false;
    warn_lost("report.html", error.what());
  }
}

}  // namespace kinet
