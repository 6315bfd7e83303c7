// The shared flags, declared once.
#include "src/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <thread>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxThreads = 1024;  // more is a typing error

}  // namespace

void add_threads_flag(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "threads a layer may use; 0 = all cores")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str();
}

int resolve_threads(int threads) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return threads > 0 ? threads : std::clamp(cores, 1, kMaxThreads);
}

void add_weights_flag(CLI::App& app, std::vector<std::string>& weights) {
  // Split here: CLI11 leaves empty names out, and takes the next argument when none is left.
  const auto take = [&weights](const std::vector<std::string>& given) {
    for (const std::string& list : given) {
      for (std::string& file : split_list(list)) {
        KINET_CHECK(!file.empty(),
                    "--weights {}: an empty file name\nhint: several files are written a,b", list);
        weights.push_back(std::move(file));
      }
    }
  };
  app.add_option_function<std::vector<std::string>>("--weights", take,
                                                    ".caffemodel files, copied by layer name: a,b")
      ->allow_extra_args(false);
}

std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("-_./=,:+@%", c) != nullptr;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void require_file(const std::string& path, const std::string& what) {
  std::error_code error;
  KINET_CHECK(fs::exists(path, error),
              "{}: no such file\nhint: {} takes the path of a file; it is "
              "looked for from {}",
              path, what, fs::current_path(error).string());
  KINET_CHECK(!fs::is_directory(path, error), "{}: is a folder, but {} takes a file", path, what);
}

}  // namespace kinet
