#include "src/sim/experiment_store.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/siphash.h"
#include "src/sim/json_number.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // people read these files too

constexpr int kFormat = 1;  // another one is not read: the cell is computed anew

double to_number(const Json& value) { return value.is_null() ? NAN : value.get<double>(); }

struct NamedNumber {
  const char* name;
  double VirtualResult::*member;
};

constexpr NamedNumber kNumbers[] = {
    {"seconds", &VirtualResult::seconds},
    {"iteration", &VirtualResult::iteration},
    {"bytes_up", &VirtualResult::bytes_up},
    {"bytes_down", &VirtualResult::bytes_down},
    {"server_seconds", &VirtualResult::server_seconds},
    {"peak_link", &VirtualResult::peak_link},
    {"p99_link", &VirtualResult::p99_link},
    {"mean_link", &VirtualResult::mean_link},
    {"compute_seconds", &VirtualResult::compute_seconds},
    {"waiting_seconds", &VirtualResult::waiting_seconds},
    {"mean_k", &VirtualResult::mean_k},
    {"mean_lag", &VirtualResult::mean_lag},
    {"max_lag", &VirtualResult::max_lag},
    {"mean_gap", &VirtualResult::mean_gap},
};

struct NamedCount {
  const char* name;
  int64_t VirtualResult::*member;
};

constexpr NamedCount kCounts[] = {{"rounds", &VirtualResult::rounds},
                                  {"pushes", &VirtualResult::pushes},
                                  {"dropped", &VirtualResult::dropped},
                                  {"samples", &VirtualResult::samples}};

Json tests_to_json(const std::vector<VirtualTest>& tests) {
  Json out = Json::array();
  for (const VirtualTest& test : tests) {
    out.push_back(Json::array({json_number(test.seconds), json_number(test.iteration), test.samples,
                               json_number(test.loss), json_number(test.accuracy)}));
  }
  return out;
}

std::vector<VirtualTest> tests_from_json(const Json& tests) {
  std::vector<VirtualTest> out;
  for (const Json& test : tests) {
    VirtualTest t;
    t.seconds = to_number(test.at(0));
    t.iteration = to_number(test.at(1));
    t.samples = test.at(2).get<int64_t>();
    t.loss = to_number(test.at(3));
    t.accuracy = to_number(test.at(4));
    out.push_back(t);
  }
  return out;
}

}  // namespace

std::string result_to_json(const std::string& label, const CellResult& result) {
  Json out;
  out["format"] = kFormat;
  out["cell"] = label;
  out["build"] = result.build;
  out["real_seconds"] = json_number(result.real_seconds);
  out["diverged"] = result.run.diverged;
  out["reason"] = result.run.reason;
  for (const NamedNumber& n : kNumbers) out[n.name] = json_number(result.run.*n.member);
  for (const NamedCount& n : kCounts) out[n.name] = result.run.*n.member;
  out["tests"] = tests_to_json(result.run.tests);  // seconds, iteration, samples, loss, accuracy
  return out.dump() + "\n";
}

std::optional<CellResult> result_from_json(const std::string& text) {
  try {
    const Json in = Json::parse(text);
    if (in.at("format") != kFormat) return std::nullopt;
    CellResult out;
    out.build = in.at("build").get<std::string>();
    out.real_seconds = to_number(in.at("real_seconds"));
    out.run.diverged = in.at("diverged").get<bool>();
    out.run.reason = in.at("reason").get<std::string>();
    for (const NamedNumber& n : kNumbers) out.run.*n.member = to_number(in.at(n.name));
    for (const NamedCount& n : kCounts) out.run.*n.member = in.at(n.name).get<int64_t>();
    out.run.tests = tests_from_json(in.at("tests"));
    return out;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

CellStore::CellStore(const fs::path& folder) : folder_(folder) { check_writable(folder_, true); }

std::string CellStore::key(const std::string& depends) {
  std::string out;
  for (const char* half : {"kinet cell 1", "kinet cell 2"}) {
    const auto bytes = std::as_bytes(std::span(depends.data(), depends.size()));
    out += fmt::format("{:016x}", siphash(sip_key_of(half), bytes));
  }
  return out;
}

fs::path CellStore::path_of(const std::string& depends) const {
  return folder_ / (key(depends) + ".json");
}

std::optional<CellResult> CellStore::find(const std::string& depends) const {
  const fs::path path = path_of(depends);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  return result_from_json(read_file(path));
}

void CellStore::save(const std::string& depends, const std::string& label,
                     const CellResult& result) const {
  write_file_atomic(path_of(depends), result_to_json(label, result));
}

}  // namespace kinet
