// Objectives in files: their fields, declared, read and judged.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "src/base/files.h"
#include "src/sim/quadratic_problem.h"
#include "src/solver/overrides.h"

namespace kinet {
namespace {

const MessageType& choice_fields() {
  static const MessageType kType{
      "objective",
      "A synthetic function in place of a net.",
      {message_field("quadratic", QuadraticSettings::fields(), "1/2 sum lambda_i (x_i - m_i)^2")}};
  return kType;
}

}  // namespace

const MessageType& QuadraticSettings::fields() {
  static const MessageType kType{
      "quadratic",
      "A quadratic with chosen eigenvalues and gaussian gradient noise, drawn for each mini-batch.",
      {uint_field("dimension", "100", "parameters"),
       float_field("condition", "100", "largest over smallest eigenvalue"),
       float_field("curvature", "1", "largest eigenvalue; steps above 2 over it diverge"),
       enum_field("spectrum", {{"LOG", 0}, {"LINEAR", 1}}, "LOG",
                  "LOG: logarithms of the eigenvalues are evenly spaced; LINEAR: they are"),
       float_field("noise", "0.1",
                   "standard deviation of each component of the gradient of one sample"),
       uint_field("batch_size", "1", "samples of a gradient: its noise is that over their root"),
       float_field("start", "1", "standard deviation of the first weights around the minimum"),
       float_field("floor", "1",
                   "added to the losses of workers, which stay above 0 with it; not to the test's"),
       uint_field("segments", "1",
                  "parameters of a net that it is cut into, for what goes by layer")}};
  return kType;
}

QuadraticSettings QuadraticSettings::from(const Params& p, Diagnostics& diagnostics) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto number = [&](const char* field, double least, double most) {
    const double value = p.get_double(field);
    if (value >= least && value <= most) return value;
    diagnostics.error(p.where(field),
                      fmt::format("{} {:g}: must be {:g} or more", field, value, least));
    return least;
  };
  const auto count = [&](const char* field, int64_t most) {
    const int64_t value = p.get_int(field);
    if (value >= 1 && value <= most) return value;
    diagnostics.error(p.where(field),
                      fmt::format("{} {}: must lie between 1 and {}", field, value, most));
    return int64_t{1};
  };
  QuadraticSettings s;
  s.dimension = count("dimension", 1'000'000'000);
  s.condition = number("condition", 1, kMost);
  s.curvature = number("curvature", 1e-30, kMost);
  s.log_spectrum = p.get_enum("spectrum") == "LOG";
  s.noise = number("noise", 0, kMost);
  s.batch_size = count("batch_size", std::numeric_limits<int32_t>::max());
  s.start = number("start", 0, kMost);
  s.floor = number("floor", 0, kMost);
  s.segments = count("segments", s.dimension);
  return s;
}

const MessageType& objective_fields() {
  static const MessageType kType{
      "objective file",
      "What `kinet simulate --objective FILE` trains in place of the nets of the solver file.",
      {message_field("objective", choice_fields(), "the function")}};
  return kType;
}

std::unique_ptr<Problem> load_objective(const std::string& path, uint64_t seed,
                                        const std::vector<std::string>& set) {
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(read_file(path), path, diagnostics);
  for (const std::string& assignment : set) {
    apply_override(assignment, objective_fields(), root, diagnostics);
  }
  validate(root, objective_fields(), "objective file", diagnostics);
  diagnostics.throw_if_any();
  const Params objective = Params(&root, &objective_fields()).message("objective");
  if (!objective.has("quadratic")) {
    fail_at({std::make_shared<const std::string>(path), 0, 0},
            "there is no objective in it\nhint: objective { quadratic { dimension: 1000 } }");
  }
  const auto settings = QuadraticSettings::from(objective.message("quadratic"), diagnostics);
  diagnostics.throw_if_any();
  return std::make_unique<QuadraticProblem>(settings, seed);
}

}  // namespace kinet
