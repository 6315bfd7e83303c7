// Walks the declared messages: nested ones become rows "a.b", shared ones sections of their own.
#include "src/cli/fields_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "comm/comm_fields.h"
#include "src/base/text.h"
#include "src/net/net_spec.h"
#include "src/prototxt/fields.h"
#include "src/sim/cluster_profile.h"
#include "src/sim/experiment.h"
#include "src/sim/quadratic_problem.h"
#include "src/solver/solver.h"

namespace kinet {
namespace {

// "layer", "net" or "comm_param" for the messages whose sections are always there.
std::string fixed_section(const MessageType* message) {
  if (message == &layer_fields()) return "layer";
  if (message == &comm_fields()) return "comm_param";
  return message == &net_fields() ? "net" : "";
}

// A message that more than one place uses has a section of its own.
struct SharedMessages {
  std::map<const MessageType*, int> uses;
  std::map<const MessageType*, std::set<std::string>> names;  // the fields it is used as

  void count(const std::vector<Field>& fields) {
    for (const Field& field : fields) {
      if (field.message == nullptr || !fixed_section(field.message).empty()) continue;
      names[field.message].insert(field.name);
      if (++uses[field.message] == 1) count(field.message->fields);
    }
  }
  bool is_shared(const MessageType* message) const {
    const auto it = uses.find(message);
    return it != uses.end() && it->second > 1;
  }
  // The message's own name, unless another shared message is called the same.
  std::string title(const MessageType* message) const {
    if (const std::string fixed = fixed_section(message); !fixed.empty()) return fixed;
    const bool unique = std::none_of(uses.begin(), uses.end(), [&](const auto& other) {
      return other.second > 1 && other.first != message && other.first->name == message->name;
    });
    return unique && !message->name.empty() ? message->name : field_names(message);
  }
  std::string field_names(const MessageType* message) const {
    const std::set<std::string>& all = names.at(message);
    return join({all.begin(), all.end()}, ", ");
  }
};

SharedMessages find_shared() {
  SharedMessages shared;
  for (const MessageType* type :
       {&SolverConfig::fields(), &comm_fields(), &ClusterProfile::fields(), &objective_fields(),
        &Experiment::fields(), &net_fields(), &layer_fields()}) {
    shared.count(type->fields);
  }
  const LayerRegistry& registry = LayerRegistry::instance();
  for (const std::string& name : registry.names()) shared.count(registry.find(name)->fields);
  return shared;
}

std::string kind_text(const Field& field) {
  static const std::map<FieldKind, std::string> kNames{
      {FieldKind::kInt, "int"},   {FieldKind::kUint, "unsigned"}, {FieldKind::kFloat, "float"},
      {FieldKind::kBool, "bool"}, {FieldKind::kString, "string"}, {FieldKind::kMessage, "message"}};
  std::string text;
  if (field.kind == FieldKind::kEnum) {
    std::vector<std::string> values;
    for (const EnumValue& value : field.values) values.push_back(value.name);
    text = join(values, " ");
  } else {
    text = kNames.at(field.kind);
  }
  return field.repeated ? text + ", repeated" : text;
}

// Table cells may hold neither bars nor line breaks.
std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

std::string row(const std::string& prefix, const Field& field) {
  std::string value = field.default_value;
  if (!value.empty()) value = "`" + cell(value) + "`";
  std::string help = cell(field.help);
  if (field.no_effect) help += " (accepted, no effect)";
  return fmt::format("| `{}{}` | {} | {} | {} |\n", prefix, field.name, kind_text(field), value,
                     help);
}

// Rows of a message; nested messages follow as "param.lr_mult" unless they have their own section.
void add_rows(const std::string& prefix, const std::vector<Field>& fields,
              const SharedMessages& shared, std::string& out) {
  for (const Field& field : fields) {
    if (field.message == nullptr) {
      out += row(prefix, field);
      continue;
    }
    Field shown = field;
    const bool apart = shared.is_shared(field.message) || !fixed_section(field.message).empty();
    if (apart) shown.help += " (see " + shared.title(field.message) + ")";
    out += row(prefix, shown);
    if (!apart) add_rows(prefix + field.name + ".", field.message->fields, shared, out);
  }
}

std::string section(const std::string& title, const std::string& help,
                    const std::vector<Field>& fields, const SharedMessages& shared) {
  std::string out = "## " + title + "\n\n";
  if (!help.empty()) out += help + "\n\n";
  if (fields.empty()) return out + "No fields of its own.\n\n";
  out += "| field | kind | default | meaning |\n| --- | --- | --- | --- |\n";
  add_rows("", fields, shared, out);
  return out + "\n";
}

std::string count_text(int low, int high, const std::string& what) {
  const std::string number = high < 0      ? fmt::format("{} or more", low)
                             : low == high ? fmt::format("{}", low)
                                           : fmt::format("{} to {}", low, high);
  return fmt::format("{} {}{}", number, what, number == "1" ? "" : "s");
}

// "how a parameter starts" -> "How a parameter starts."
std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.back() == '.' ? text : text + '.';
}

std::string layer_help(const LayerType& type) {
  std::string help = sentence(type.help);
  help += " Reads " + count_text(type.min_bottoms, type.max_bottoms, "bottom") + ", makes " +
          count_text(type.min_tops, type.max_tops, "top") + ".";
  if (type.in_place) help += " May run in place.";
  return help;
}

struct Section {
  std::string title, text;
  std::string also;  // other names it is found by: "bias_filler, weight_filler"
};

std::vector<Section> all_sections() {
  const SharedMessages shared = find_shared();
  std::vector<Section> out;
  const auto add = [&](const std::string& title, const std::string& help,
                       const std::vector<Field>& fields) {
    out.push_back({title, section(title, help, fields, shared), ""});
  };
  const MessageType& solver = SolverConfig::fields();
  add("solver", solver.help, solver.fields);
  add("comm_param", comm_fields().help, comm_fields().fields);
  out.back().also = "comm";
  add("cluster", ClusterProfile::fields().help, ClusterProfile::fields().fields);
  add("objective", objective_fields().help, objective_fields().fields);
  add("experiment", Experiment::fields().help, Experiment::fields().fields);
  add("net", net_fields().help, net_fields().fields);
  add("layer", layer_fields().help, layer_fields().fields);
  const LayerRegistry& registry = LayerRegistry::instance();
  for (const std::string& name : registry.names()) {
    const LayerType& type = *registry.find(name);
    add(name, layer_help(type), type.fields);
  }
  std::map<std::string, const MessageType*> by_title;
  for (const auto& [message, uses] : shared.uses) {
    if (uses > 1) by_title.emplace(shared.title(message), message);
  }
  for (const auto& [title, message] : by_title) {
    const std::string names = shared.field_names(message);
    const std::string use = names == title ? "" : " Stands in files as: " + names + ".";
    add(title, sentence(message->help) + use, message->fields);
    out.back().also = names;
  }
  return out;
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// A part of a name: " (did you mean 'Convolution' or 'Deconvolution'?)".
std::string sections_with(const std::string& part, const std::vector<std::string>& known) {
  constexpr size_t kShown = 4;
  std::vector<std::string> found;
  for (const std::string& title : known) {
    const bool has = lower_case(title).find(lower_case(part)) != std::string::npos;
    if (has && found.size() < kShown) found.push_back("'" + title + "'");
  }
  return found.empty() ? "" : fmt::format(" (did you mean {}?)", join(found, " or "));
}

constexpr const char* kHead = R"(# Model files: every field

This page is the output of `kinet fields`; do not edit it. A file is checked against these
declarations before anything is set up: an unknown field is an error that names the nearest known
one. `a.b` stands for field `b` inside message `a { }`. An enum's value is written with or without
quotes, or as its number. Sections: solver files, how workers talk, modelled clusters, synthetic
objectives and experiments on them, net files, fields of all layers, the layer types in alphabetical
order, and messages that several of them use.

)";

}  // namespace

std::string fields_page() {
  std::string out = kHead;
  for (const Section& section : all_sections()) out += section.text;
  while (out.size() > 1 && out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string fields_section(const std::string& name) {
  std::vector<std::string> known;
  for (const Section& section : all_sections()) {
    known.push_back(section.title);
    const std::string padded = ", " + section.title + ", " + section.also + ", ";
    if (padded.find(", " + name + ", ") != std::string::npos) return section.text;
  }
  std::string guess = did_you_mean(name, known);
  if (guess.empty()) guess = sections_with(name, known);
  fail("fields: there is no section '{}'{}\nhint: 'kinet fields' prints all of them", name, guess);
}

}  // namespace kinet
