// The fields of sync_param that choose k, and the controller made of them.
#include <fmt/core.h>

#include <algorithm>

#include "src/base/text.h"
#include "src/sync/k_controller.h"

namespace kinet {
namespace {

std::string rule_help() {
  std::string help = "how k is chosen; of several rules the largest k:";
  const KRuleRegistry& registry = KRuleRegistry::instance();
  for (const std::string& name : registry.names()) {
    help += fmt::format(" {} ({});", name, registry.find(name)->help);
  }
  help.pop_back();
  return help;
}

Field rule_field() {
  Field field = string_field("k_rule", "momentum", rule_help());
  return repeated(std::move(field));
}

const KRuleType& rule_named(const Params& sync_param, const std::string& name) {
  const KRuleType* type = KRuleRegistry::instance().find(name);
  if (!type) {
    fail_at(sync_param.where("k_rule"),
            fmt::format("k_rule \"{}\" is not known\nhint: known are {}", name,
                        join(KRuleRegistry::instance().names(), ", ")));
  }
  return *type;
}

KControllerOptions read_options(const Params& p) {
  KControllerOptions options;
  options.start = p.get_int32("k");
  options.min = p.get_int32("k_min");
  options.max = p.get_int32("k_max");
  options.interval = p.get_int32("k_interval");
  options.gain = p.get_double("k_gain");
  if (options.max > 0 && options.min > options.max) {
    fail_at(p.where("k_min"), fmt::format("k_min {} is above k_max {}", options.min, options.max));
  }
  if (options.gain < 0) {
    fail_at(p.where("k_gain"), fmt::format("k_gain must not be negative, got {:g}", options.gain));
  }
  return options;
}

}  // namespace

std::vector<Field> k_rule_fields() {
  std::vector<Field> fields = {
      rule_field(),
      uint_field("k", "0",
                 "gradients that the first round waits for (rule fixed: all rounds); 0: "
                 "one of each live worker"),
      uint_field("k_min", "1", "least k that a rule may choose"),
      uint_field("k_max", "0", "largest k that a rule may choose; 0: the live workers"),
      uint_field("k_interval", "0",
                 "rounds between two decisions about k; 0: as many as make two iterations"),
      float_field("k_gain", "0.05",
                  "k changes only for a predicted gain of at least this share of the speed")};
  const KRuleRegistry& registry = KRuleRegistry::instance();
  for (const std::string& name : registry.names()) {
    for (const Field& field : registry.find(name)->fields) {
      const bool shared = std::any_of(fields.begin(), fields.end(),
                                      [&](const Field& other) { return other.name == field.name; });
      if (!shared) fields.push_back(field);
    }
  }
  return fields;
}

std::unique_ptr<KController> make_k_controller(const Params& sync_param, int least) {
  std::vector<KController::NamedRule> rules;
  for (const std::string& name : sync_param.get_strings("k_rule")) {
    rules.push_back({name, rule_named(sync_param, name).make(sync_param)});
  }
  KControllerOptions options = read_options(sync_param);
  if (!sync_param.has("k_min")) options.min = least;
  return std::make_unique<KController>(options, std::move(rules));
}

}  // namespace kinet
