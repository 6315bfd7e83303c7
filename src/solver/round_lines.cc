#include "src/solver/round_lines.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/base/check.h"

namespace kinet {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBegin = R"({"type":"round",)";

// JSON has no NaN or Inf: null stands for both.
std::string shown(double v) { return std::isfinite(v) ? fmt::format("{:.6g}", v) : "null"; }
std::string exact(double v) { return std::isfinite(v) ? fmt::format("{}", v) : "null"; }

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

double number(const Json& value) { return value.is_number() ? value.get<double>() : NAN; }

template <class T>
T whole(const Json& record, const char* name) {
  return record.value(name, T{0});
}

RoundRecord::Member member_of(const Json& j) {
  return {.worker = j.at(0).get<int>(),
          .seq = j.at(1).get<int64_t>(),
          .weight = number(j.at(2)),
          .lag = j.at(3).get<int>(),
          .rate = number(j.at(4)),
          .how = j.at(5).get<std::string>(),
          .seconds = j.size() > 6 ? number(j.at(6)) : 0,
          .steps = j.size() > 7 ? j.at(7).get<int64_t>() : 1};
}

RoundRecord round_of(const Json& j) {
  RoundRecord r;
  r.round = j.at("round").get<int64_t>();
  r.iteration = number(j.at("iteration"));
  r.seconds = number(j.at("seconds"));
  r.k = j.at("k").get<int>();
  r.live = j.at("live").get<int>();
  r.loss = number(j.at("loss"));
  for (const Json& member : j.at("members")) r.members.push_back(member_of(member));
  const Json terms = j.value("terms", Json::object()), waiting = j.value("waiting", Json::array());
  for (const auto& [name, value] : terms.items()) r.terms.emplace_back(name, number(value));
  for (const Json& seconds : waiting) r.waiting.push_back(number(seconds));
  r.dropped = whole<int>(j, "dropped");
  r.service = j.contains("service") ? number(j["service"]) : 0;
  r.note = j.value("note", "");
  return r;
}

}  // namespace

std::string round_line(const RoundRecord& r) {
  std::string out =
      fmt::format(R"({}"round":{},"iteration":{},"seconds":{},"k":{},"live":{},"loss":{})", kBegin,
                  r.round, exact(r.iteration), exact(r.seconds), r.k, r.live, shown(r.loss));
  out += R"(,"members":[)";
  for (size_t i = 0; i < r.members.size(); ++i) {
    const RoundRecord::Member& m = r.members[i];
    out += fmt::format("{}[{},{},{},{},{},{}", i > 0 ? "," : "", m.worker, m.seq, exact(m.weight),
                       m.lag, exact(m.rate), quoted(m.how));
    if (m.seconds > 0 || m.steps != 1) out += "," + shown(m.seconds);
    if (m.steps != 1) out += fmt::format(",{}", m.steps);
    out += "]";
  }
  out += "]";
  if (!r.terms.empty()) {
    out += R"(,"terms":{)";
    for (size_t i = 0; i < r.terms.size(); ++i) {
      out += (i > 0 ? "," : "") + quoted(r.terms[i].first) + ":" + shown(r.terms[i].second);
    }
    out += "}";
  }
  if (!r.waiting.empty()) {
    out += R"(,"waiting":[)";
    for (size_t w = 0; w < r.waiting.size(); ++w) out += (w > 0 ? "," : "") + shown(r.waiting[w]);
    out += "]";
  }
  if (r.dropped != 0) out += fmt::format(R"(,"dropped":{})", r.dropped);
  if (r.service > 0) out += R"(,"service":)" + shown(r.service);
  if (!r.note.empty()) out += R"(,"note":)" + quoted(r.note);
  return out + "}";
}

std::optional<RoundRecord> parse_round(const std::string& line) {
  if (!line.starts_with(kBegin)) return std::nullopt;  // most lines of other types end here
  try {
    const Json j = Json::parse(line, nullptr, false);
    if (!j.is_object() || j.value("type", "") != "round") return std::nullopt;
    return round_of(j);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::vector<RoundRecord> read_rounds(const std::filesystem::path& path) {
  std::ifstream in(path);
  KINET_CHECK(in.good(), "{}: cannot be read", path.string());
  std::vector<RoundRecord> rounds;
  for (std::string line; std::getline(in, line);) {
    if (const auto round = parse_round(line)) rounds.push_back(*round);
    if (line.find(R"("type":"start")") == std::string::npos) continue;
    const Json j = Json::parse(line, nullptr, false);
    if (!j.is_object() || j.value("type", "") != "start") continue;
    const bool resumed = !j.value("resumed_from", "").empty();
    const double keep = resumed ? number(j.value("iteration", Json())) : -1;
    std::erase_if(rounds, [keep](const RoundRecord& r) { return r.iteration > keep; });
  }
  return rounds;
}

}  // namespace kinet
