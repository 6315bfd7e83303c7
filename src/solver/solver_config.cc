// Reading solver.prototxt and the nets it names; every fault of all of them is reported at once.
#include <algorithm>
#include <filesystem>
#include <map>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/prototxt/upgrade_v1.h"
#include "src/solver/config_checks.h"
#include "src/solver/overrides.h"
#include "src/solver/solver.h"

namespace kinet {
namespace {

using NetPointer = std::shared_ptr<const ParamNode>;

NetState read_state(const Params& state, Phase phase) {
  NetState out;
  out.phase = phase;
  out.level = static_cast<int>(state.get_int("level"));
  out.stages = state.get_strings("stage");
  return out;
}

// The solver's own fields, nets cut out: those are checked by prepare_net().
ParamNode without_nets(const ParamNode& root) {
  ParamNode copy = root;
  for (ParamNode& child : copy.children) {
    if (child.name.ends_with("net_param")) child.children.clear();
  }
  return copy;
}

}  // namespace

struct SolverConfig::Impl {
  struct TestNet {
    NetPointer net;
    NetState state;
  };

  std::string path;
  ParamNode root;  // with overrides
  NetPointer train_net;
  NetState train_state;
  std::vector<TestNet> tests;
  std::vector<std::string> notes, errors;
  std::map<std::string, NetPointer> files;  // by resolved path, so that each is read once

  void collect(const Diagnostics& diagnostics) {
    errors.insert(errors.end(), diagnostics.errors().begin(), diagnostics.errors().end());
    notes.insert(notes.end(), diagnostics.notes().begin(), diagnostics.notes().end());
  }

  // Runs `work`, which may throw a set-up error, and keeps the message once.
  template <class Work>
  void gather(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kUser) throw;
      const std::string text = error.what();
      if (std::find(errors.begin(), errors.end(), text) == errors.end()) errors.push_back(text);
    }
  }

  // The net that a field gives, or null when it is faulty (reported).
  NetPointer read_net(const ParamNode& field) {
    NetPointer net;
    gather([&] {
      if (field.is_message()) {
        net = std::make_shared<const ParamNode>(prepare_net(field, &notes));
        return;
      }
      const std::string file = resolve_path(field.text, field.where);
      std::error_code error;
      if (!std::filesystem::exists(file, error)) {
        fail_at(field.value_where, fmt::format("{}: {}: no such file", field.name,
                                               describe_path(field.text, field.where)));
      }
      if (files.count(file) == 0) {
        files[file] = nullptr;
        files[file] = std::make_shared<const ParamNode>(load_net_file(file, &notes));
      }
      net = files[file];
    });
    return net;
  }

  NetPointer read_net_named(const char* field) {
    const ParamNode* node = root.find(field);
    return node == nullptr ? nullptr : read_net(*node);
  }

  void read_nets(const Params& solver);
  void read_tests(const Params& solver, const NetPointer& common);
  void check_specs();
};

void SolverConfig::Impl::read_nets(const Params& solver) {
  NetPointer common = read_net_named("net");
  if (common == nullptr) common = read_net_named("net_param");
  train_net = common;
  for (const char* field : {"train_net", "train_net_param"}) {
    if (train_net == nullptr) train_net = read_net_named(field);
  }
  train_state = read_state(solver.message("train_state"), Phase::kTrain);
  read_tests(solver, common);
}

// Test nets in Caffe's order: test_net_param, then test_net, then the common net for as many as
// test_iter or test_state say, else for one.
void SolverConfig::Impl::read_tests(const Params& solver, const NetPointer& common) {
  for (const char* field : {"test_net_param", "test_net"}) {
    for (const ParamNode* node : root.find_all(field)) tests.push_back({read_net(*node), {}});
  }
  const bool shared = solver.has("net") || solver.has("net_param");
  const auto named = tests.size();
  const auto iters = static_cast<size_t>(solver.count("test_iter"));
  const auto states = static_cast<size_t>(solver.count("test_state"));
  size_t total = std::max({named, iters, states});
  if (total == 0 && shared && solver.get_int("test_interval") > 0) total = 1;
  Diagnostics diagnostics;
  const auto mismatch = [&](const char* field, size_t count) {
    diagnostics.error(
        solver.where(field),
        fmt::format("{} test nets but {} {}; give one for each test net", total, count, field));
  };
  if (total > named && !shared) total = named;
  if (iters != 0 && iters != total) mismatch("test_iter", iters);
  if (states != 0 && states != total) mismatch("test_state", states);
  collect(diagnostics);
  tests.resize(total, {common, {}});
  const std::vector<Params> given = solver.messages("test_state");
  for (size_t i = 0; i < total; ++i) {
    tests[i].state = read_state(i < given.size() ? given[i] : Params(nullptr, &net_state_fields()),
                                Phase::kTest);
  }
}

// Builds the list of layers of every state once, for its errors only.
void SolverConfig::Impl::check_specs() {
  if (train_net != nullptr) gather([&] { make_net_spec(*train_net, train_state); });
  for (const TestNet& test : tests) {
    if (test.net != nullptr) gather([&] { make_net_spec(*test.net, test.state); });
  }
}

std::shared_ptr<const SolverConfig> SolverConfig::load(const std::string& path,
                                                       const std::vector<std::string>& set) {
  return parse(read_file(path), path, set);
}

std::shared_ptr<const SolverConfig> SolverConfig::parse(const std::string& text,
                                                        const std::string& name,
                                                        const std::vector<std::string>& set) {
  auto impl = std::make_shared<Impl>();
  impl->path = name;
  Diagnostics diagnostics;
  impl->root = parse_prototxt(text, name, diagnostics);
  upgrade_v1_solver(impl->root, diagnostics);
  for (const std::string& assignment : set) {
    apply_override(assignment, fields(), impl->root, diagnostics);
  }
  const ParamNode own = without_nets(impl->root);
  validate(own, fields(), "solver", diagnostics);
  const Params solver(&impl->root, &fields());
  if (diagnostics.ok()) check_solver(solver, diagnostics);
  const bool readable = diagnostics.ok();
  impl->collect(diagnostics);
  if (readable) {
    impl->read_nets(solver);
    impl->check_specs();
  } else {  // the faults of the nets all the same
    for (const char* field : {"net", "net_param", "train_net", "train_net_param"}) {
      const NetPointer net = impl->read_net_named(field);
      if (net != nullptr) impl->gather([&] { make_net_spec(*net, NetState{}); });
    }
  }
  if (!impl->errors.empty()) throw Error(join(impl->errors, "\n"));
  auto config = std::make_shared<SolverConfig>();
  config->impl_ = std::move(impl);
  return config;
}

Params SolverConfig::params() const { return {&impl_->root, &fields()}; }
const ParamNode& SolverConfig::train_net() const { return *impl_->train_net; }
NetState SolverConfig::train_state() const { return impl_->train_state; }
int SolverConfig::test_net_count() const { return static_cast<int>(impl_->tests.size()); }
const ParamNode& SolverConfig::test_net(int index) const { return *impl_->tests[index].net; }
NetState SolverConfig::test_state(int index) const { return impl_->tests[index].state; }
const std::string& SolverConfig::path() const { return impl_->path; }
const std::vector<std::string>& SolverConfig::notes() const { return impl_->notes; }

}  // namespace kinet
