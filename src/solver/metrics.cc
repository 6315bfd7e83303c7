// Records to JSON lines and back. What is read back is what the report draws; the rest of a line is
// for other programs.
#include "src/solver/metrics.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/solver/round_lines.h"

namespace kinet {
namespace {

// Keeps the order of insertion: people read these lines too.
using Json = nlohmann::ordered_json;

// "2026-11-29T14:26:49Z"
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// JSON has no NaN or Inf: null stands for both.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double to_number(const Json& value) { return value.is_number() ? value.get<double>() : NAN; }

// {"loss": 0.5, "accuracy": [0.9, 0.8]}: a name that comes several times (one a class) is a list.
Json outputs_to_json(const std::vector<OutputValue>& outputs) {
  Json out = Json::object();
  for (const OutputValue& value : outputs) {
    if (!out.contains(value.name)) {
      out[value.name] = number(value.value);
      continue;
    }
    Json& slot = out[value.name];
    if (!slot.is_array()) slot = Json::array({slot});
    slot.push_back(number(value.value));
  }
  return out;
}

// Names of the outputs that are losses, with their weights.
Json losses_to_json(const std::vector<OutputValue>& outputs) {
  Json out = Json::object();
  for (const OutputValue& value : outputs) {
    if (value.loss_weight != 0) out[value.name] = number(value.loss_weight);
  }
  return out;
}

std::vector<OutputValue> outputs_from_json(const Json& record) {
  std::vector<OutputValue> out;
  const Json weights = record.value("loss_weights", Json::object());
  const Json outputs = record.value("outputs", Json::object());
  for (const auto& [name, value] : outputs.items()) {
    const float weight = weights.contains(name) ? static_cast<float>(to_number(weights[name])) : 0;
    for (const Json& item : value.is_array() ? value : Json::array({value})) {
      out.push_back({name, to_number(item), weight});
    }
  }
  return out;
}

StartRecord start_from_json(const Json& j) {
  StartRecord r;
  r.net_name = j.value("net", "");
  r.solver_type = j.value("solver", "");
  r.lr_policy = j.value("lr_policy", "");
  r.seed = j.value("seed", uint64_t{0});
  r.threads = j.value("threads", 1);
  r.iteration = j.value("iteration", int64_t{0});
  r.max_iterations = j.value("max_iterations", int64_t{0});
  r.resumed_from = j.value("resumed_from", "");
  r.weights = j.value("weights", std::vector<std::string>{});
  r.parameters = j.value("parameters", int64_t{0});
  r.batch = j.value("batch", int64_t{0});
  r.iter_size = j.value("iter_size", int64_t{1});
  r.train_items = j.value("train_items", int64_t{0});
  r.workers = j.value("workers", 1);
  return r;
}

DisplayRecord display_from_json(const Json& j) {
  DisplayRecord r;
  r.iteration = j.value("iteration", int64_t{0});
  r.epoch = to_number(j.value("epoch", Json()));
  r.seconds = to_number(j.value("seconds", Json()));
  r.loss = to_number(j.value("loss", Json()));
  r.learning_rate = to_number(j.value("learning_rate", Json()));
  r.gradient_norm = to_number(j.value("gradient_norm", Json()));
  r.iterations_per_second = to_number(j.value("iterations_per_second", Json()));
  r.images_per_second = to_number(j.value("images_per_second", Json()));
  r.waiting_seconds = to_number(j.value("waiting_seconds", Json(0.0)));
  r.rate_multiplier = to_number(j.value("rate_multiplier", Json(1.0)));
  r.search_share = to_number(j.value("search_share", Json(0.0)));
  r.outputs = outputs_from_json(j);
  return r;
}

TestRecord test_from_json(const Json& j) {
  TestRecord r;
  r.iteration = j.value("iteration", int64_t{0});
  r.net = j.value("net", 0);
  r.loss = to_number(j.value("loss", Json()));
  r.items = j.value("items", int64_t{0});
  r.set_items = j.value("set_items", int64_t{0});
  r.outputs = outputs_from_json(j);
  return r;
}

bool ends_in_half_a_line(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in || in.tellg() <= 0) return false;
  in.seekg(-1, std::ios::end);
  return in.get() != '\n';
}

std::string dump(const Json& record) {
  // Paths need not be UTF-8; a replacement character is better than no record.
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path) : path_(path.string()) {
  const bool repair = ends_in_half_a_line(path);  // left by a run that was killed
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (!file_) fail_runtime("{}: cannot be written: {}", path_, std::strerror(errno));
  if (repair) write_line("");
}

void MetricsWriter::write_line(std::string line) {
  line += '\n';
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (!written || std::fflush(file_.get()) != 0) {
    fail_runtime("{}: cannot be written: {}", path_, std::strerror(errno));
  }
}

void MetricsWriter::on_start(const StartRecord& r) {
  write_line(dump({{"type", "start"},
                   {"time", utc_now()},
                   {"iteration", r.iteration},
                   {"max_iterations", r.max_iterations},
                   {"net", r.net_name},
                   {"parameters", r.parameters},
                   {"solver", r.solver_type},
                   {"lr_policy", r.lr_policy},
                   {"seed", r.seed},
                   {"threads", r.threads},
                   {"batch", r.batch},
                   {"iter_size", r.iter_size},
                   {"workers", r.workers},
                   {"train_items", r.train_items},
                   {"iterations_per_epoch", number(r.iterations_per_epoch)},
                   {"resumed_from", r.resumed_from},
                   {"weights", r.weights},
                   {"history", r.history}}));
}

void MetricsWriter::on_round(const RoundRecord& r) { write_line(round_line(r)); }

void MetricsWriter::on_display(const DisplayRecord& r) {
  write_line(dump({{"type", "train"},
                   {"iteration", r.iteration},
                   {"epoch", number(r.epoch)},
                   {"seconds", number(r.seconds)},
                   {"loss", number(r.loss)},
                   {"learning_rate", number(r.learning_rate)},
                   {"gradient_norm", number(r.gradient_norm)},
                   {"iterations_per_second", number(r.iterations_per_second)},
                   {"images_per_second", number(r.images_per_second)},
                   {"waiting_seconds", number(r.waiting_seconds)},
                   {"rate_multiplier", number(r.rate_multiplier)},
                   {"search_share", number(r.search_share)},
                   {"outputs", outputs_to_json(r.outputs)},
                   {"loss_weights", losses_to_json(r.outputs)}}));
}

void MetricsWriter::on_test(const TestRecord& r) {
  write_line(dump({{"type", "test"},
                   {"iteration", r.iteration},
                   {"net", r.net},
                   {"loss", number(r.loss)},
                   {"items", r.items},
                   {"set_items", r.set_items},
                   {"coverage", r.coverage},
                   {"at", r.at},
                   {"seconds", number(r.seconds)},
                   {"outputs", outputs_to_json(r.outputs)},
                   {"loss_weights", losses_to_json(r.outputs)}}));
}

void MetricsWriter::on_snapshot(int64_t iteration, const std::string& path) {
  write_line(dump({{"type", "snapshot"}, {"iteration", iteration}, {"path", path}}));
}

void MetricsWriter::on_note(const std::string& text) {
  write_line(dump({{"type", "note"}, {"text", text}}));
}

void MetricsWriter::on_warning(const std::string& text) {
  write_line(dump({{"type", "warning"}, {"text", text}}));
}

void MetricsWriter::on_finish(const FinishRecord& r) {
  write_line(dump({{"type", "finish"},
                   {"iteration", r.iteration},
                   {"seconds", number(r.seconds)},
                   {"loss", number(r.loss)},
                   {"reason", r.reason},
                   {"last_snapshot", r.last_snapshot}}));
}

void RunHistory::begin(const StartRecord& record) {
  const int64_t keep = record.resumed_from.empty() ? -1 : record.iteration;
  std::erase_if(displays, [keep](const DisplayRecord& r) { return r.iteration > keep; });
  std::erase_if(tests, [keep](const TestRecord& r) { return r.iteration > keep; });
  rounds.begin(static_cast<double>(keep));
  finish.reset();
  start = record;
}

RunHistory read_metrics(const std::filesystem::path& path) {
  RunHistory history;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (const auto round = parse_round(line)) {
      history.rounds.add(*round);
      continue;
    }
    const Json record = Json::parse(line, nullptr, false);
    if (!record.is_object()) continue;
    const std::string type = record.value("type", "");
    if (type == "start") history.begin(start_from_json(record));
    if (type == "train") history.displays.push_back(display_from_json(record));
    if (type == "test") history.tests.push_back(test_from_json(record));
  }
  return history;
}

}  // namespace kinet
