#include "src/net/snapshot.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/rng.h"
#include "src/base/text.h"
#include "src/net/checksum.h"
#include "src/proto/kinet/solverstate.pb.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

constexpr int kFormatVersion = 2;  // from 2 on, a checksum ends the file

// Positions are counted in 64 bits; sums and products with what a run adds stay far from the end.
constexpr int64_t kLargestPosition = int64_t{1} << 53;
constexpr int64_t kLargestInt = std::numeric_limits<int32_t>::max();

void write_sync(const SyncExtras& sync, SyncState& proto) {
  proto.set_model(sync.model);
  proto.set_iteration(sync.iteration);
  proto.set_round(sync.round);
  for (const double number : sync.state) proto.add_state(number);
  for (const WorkerExtras& worker : sync.workers) {
    WorkerState& out = *proto.add_worker();
    out.set_next_batch(worker.next_batch);
    for (const float v : worker.momentum) out.add_momentum(v);
  }
}

void write_extras(const KinetExtras& extras, KinetState& proto) {
  proto.set_format_version(kFormatVersion);
  proto.set_solver_type(extras.solver_type);
  proto.set_net_name(extras.net_name);
  proto.set_seed(extras.seed);
  proto.set_iter_size(extras.iter_size);
  for (const SourcePosition& source : extras.positions) {
    DataPosition& position = *proto.add_position();
    position.set_layer(source.layer);
    position.set_position(source.position);
    position.set_items(source.items);
    position.set_batch_size(source.batch_size);
  }
  proto.set_model_hash(extras.model_hash);
  if (extras.tested_iteration >= 0) proto.set_tested_iteration(extras.tested_iteration);
  if (extras.early_stop) {
    proto.mutable_early_stop()->set_best(extras.early_stop->best);
    proto.mutable_early_stop()->set_best_iteration(extras.early_stop->best_iteration);
    proto.mutable_early_stop()->set_tests_since_best(extras.early_stop->tests_since_best);
  }
  for (const double loss : extras.recent_losses) proto.add_recent_loss(loss);
  for (const LrSearchRecord& r : extras.lr_search) {
    LrSearchEntry& state = *proto.add_lr_search();
    state.set_log_multiplier(r.log_multiplier);
    state.set_step(r.step);
    state.set_next(r.next);
    state.set_searches(r.searches);
    state.set_passes(r.passes);
    state.set_log_ceiling(r.log_ceiling);
  }
  if (!extras.sync.model.empty()) write_sync(extras.sync, *proto.mutable_sync());
}

std::string wrong_search(const KinetState& proto) {
  constexpr double kLargestLog = 100;
  for (const LrSearchEntry& s : proto.lr_search()) {
    const bool counts = s.step() >= 0 && s.searches() >= 0 && s.passes() >= 0;
    if (!counts || !(std::fabs(s.log_multiplier()) < kLargestLog) ||
        !(std::fabs(s.log_ceiling()) < kLargestLog)) {
      return fmt::format("a learning-rate search at step {} with multiplier e^{}", s.step(),
                         s.log_multiplier());
    }
  }
  return "";
}

// What is wrong with the numbers of a state, or "": the solver computes with them as they are.
std::string wrong_number(const KinetState& proto, int64_t iteration) {
  const auto outside = [](int64_t value, int64_t least, int64_t most) {
    return value < least || value > most;
  };
  std::set<std::string> layers;
  for (const DataPosition& p : proto.position()) {
    if (!layers.insert(p.layer()).second) return fmt::format("two positions of '{}'", p.layer());
    if (outside(p.position(), 0, kLargestPosition)) {
      return fmt::format("layer '{}' at item {}", p.layer(), p.position());
    }
    if (outside(p.items(), 0, kLargestPosition)) {
      return fmt::format("layer '{}' of {} items", p.layer(), p.items());
    }
    if (outside(p.batch_size(), 0, kLargestInt)) {
      return fmt::format("layer '{}' with batches of {}", p.layer(), p.batch_size());
    }
  }
  if (outside(proto.iter_size(), 1, kLargestInt)) {
    return fmt::format("iter_size {}", proto.iter_size());
  }
  if (proto.has_tested_iteration() && outside(proto.tested_iteration(), 0, iteration)) {
    return fmt::format("a test at iteration {} of {}", proto.tested_iteration(), iteration);
  }
  if (const std::string wrong = wrong_search(proto); !wrong.empty()) return wrong;
  for (const WorkerState& w : proto.sync().worker()) {
    if (outside(w.next_batch(), 0, kLargestInt)) {
      return fmt::format("a worker at batch {}", w.next_batch());
    }
  }
  if (outside(proto.sync().round(), 0, kLargestPosition)) {
    return fmt::format("round {}", proto.sync().round());
  }
  if (!proto.has_early_stop()) return "";
  const EarlyStopState& stop = proto.early_stop();
  if (outside(stop.best_iteration(), 0, iteration)) {
    return fmt::format("the best test at iteration {} of {}", stop.best_iteration(), iteration);
  }
  return stop.tests_since_best() < 0 ? fmt::format("{} tests", stop.tests_since_best()) : "";
}

SyncExtras read_sync(const SyncState& proto) {
  SyncExtras out;
  out.model = proto.model();
  out.iteration = proto.iteration();
  out.round = proto.round();
  out.state.assign(proto.state().begin(), proto.state().end());
  for (const WorkerState& w : proto.worker()) {
    out.workers.push_back({w.next_batch(), {w.momentum().begin(), w.momentum().end()}});
  }
  return out;
}

KinetExtras read_extras(const KinetState& proto) {
  KinetExtras extras;
  extras.solver_type = proto.solver_type();
  extras.net_name = proto.net_name();
  extras.seed = proto.seed();
  extras.iter_size = proto.iter_size();
  for (const DataPosition& p : proto.position()) {
    extras.positions.push_back({p.layer(), p.position(), p.items(), p.batch_size()});
  }
  extras.model_hash = proto.model_hash();
  if (proto.has_tested_iteration()) extras.tested_iteration = proto.tested_iteration();
  if (proto.has_early_stop()) {
    extras.early_stop =
        EarlyStopRecord{proto.early_stop().best(), proto.early_stop().best_iteration(),
                        proto.early_stop().tests_since_best()};
  }
  extras.recent_losses.assign(proto.recent_loss().begin(), proto.recent_loss().end());
  for (const LrSearchEntry& s : proto.lr_search()) {
    extras.lr_search.push_back(
        {s.log_multiplier(), s.step(), s.next(), s.searches(), s.passes(), s.log_ceiling()});
  }
  if (proto.has_sync()) extras.sync = read_sync(proto.sync());
  return extras;
}

HistoryEntry read_entry(const BlobProto& proto, const std::string& path) {
  HistoryEntry entry{shape_of(proto), {}};
  if (proto.double_data_size() > 0) {
    entry.data.assign(proto.double_data().begin(), proto.double_data().end());
  } else {
    entry.data.assign(proto.data().begin(), proto.data().end());
  }
  KINET_CHECK(static_cast<int64_t>(entry.data.size()) == entry.shape.count(),
              "{}: a history entry of shape {} holds {} numbers: damaged", path, entry.shape.str(),
              entry.data.size());
  return entry;
}

std::string encode(const Snapshot& snapshot) {
  SolverState proto;
  proto.set_iter(static_cast<int32_t>(snapshot.iteration));
  proto.set_learned_net(snapshot.learned_net);
  for (const HistoryEntry& entry : snapshot.history) {
    blob_to_proto(entry.shape, entry.data.data(), *proto.add_history());
  }
  proto.set_current_step(0);
  if (snapshot.extras) write_extras(*snapshot.extras, *proto.mutable_kinet());
  proto.mutable_kinet()->set_history_entries(proto.history_size());
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) fail_runtime("the state is too large for one file (2 GB)");
  append_checksum(bytes);
  return bytes;
}

// Of the two places a model may be in, the one beside the state comes first: whoever copies a run's
// folder means the copy.
std::string find_model(const Snapshot& snapshot) {
  const fs::path written = snapshot.learned_net;
  const fs::path beside = fs::path(snapshot.path).parent_path() / written.filename();
  std::error_code error;
  if (fs::is_regular_file(beside, error)) return beside.string();
  const bool same = fs::absolute(beside, error).lexically_normal() ==
                    fs::absolute(written, error).lexically_normal();
  KINET_CHECK(fs::is_regular_file(written, error),
              "{}: its model is missing: {} there\nhint: keep the .caffemodel beside the "
              ".solverstate",
              snapshot.path,
              same ? beside.string() + " is not"
                   : fmt::format("neither {} nor {} is", beside.string(), written.string()));
  return written.string();
}

}  // namespace

std::vector<HistoryEntry> pack_history(const Net& net, std::span<const float> history,
                                       int histories) {
  std::vector<HistoryEntry> entries;
  const size_t stride = histories > 0 ? history.size() / static_cast<size_t>(histories) : 0;
  for (int h = 0; h < histories; ++h) {
    for (const ParameterInfo& p : net.parameters()) {
      HistoryEntry entry{p.shape, std::vector<float>(p.count)};
      const float* from = history.data() + static_cast<size_t>(h) * stride + p.offset;
      if (!p.is_buffer) std::copy(from, from + p.count, entry.data.begin());
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

void unpack_history(const Snapshot& snapshot, const Net& net, const std::string& solver_type,
                    int histories, std::span<float> history) {
  const std::vector<ParameterInfo>& parameters = net.parameters();
  const size_t expected = parameters.size() * static_cast<size_t>(histories);
  KINET_CHECK(snapshot.history.size() == expected,
              "{}: the state has {} history entries; {} with this net ({} parameters and buffers) "
              "needs {}\nhint: the state is of another net or solver type; --weights takes the "
              "model alone and starts at iteration 0",
              snapshot.path, snapshot.history.size(), solver_type, parameters.size(), expected);
  const size_t stride = histories > 0 ? history.size() / static_cast<size_t>(histories) : 0;
  for (size_t i = 0; i < expected; ++i) {
    const ParameterInfo& p = parameters[i % parameters.size()];
    const HistoryEntry& entry = snapshot.history[i];
    const ModelBlob as_blob{entry.shape, true, entry.data};
    KINET_CHECK(as_blob.fits(p.shape), "{}: history of '{}' has shape {}, the net's has {}",
                snapshot.path, p.name, entry.shape.str(), p.shape.str());
    if (p.is_buffer) continue;
    float* to = history.data() + i / parameters.size() * stride + p.offset;
    std::copy(entry.data.begin(), entry.data.end(), to);
  }
}

std::string write_snapshot(const std::string& prefix, Net& net, Snapshot snapshot) {
  const std::string base = fmt::format("{}_iter_{}", prefix, snapshot.iteration);
  const std::string bytes = encode_caffemodel(net, snapshot.iteration);
  snapshot.learned_net = base + ".caffemodel";
  if (snapshot.extras) snapshot.extras->model_hash = hash_name(bytes);
  write_file_atomic(snapshot.learned_net, bytes);
  write_file_atomic(base + ".solverstate", encode(snapshot));
  return base + ".solverstate";
}

Snapshot read_snapshot(const std::string& path) {
  const std::string bytes = read_file(path);
  const FileKind kind = file_kind(bytes);
  const char* hint = kind == FileKind::kModel
                         ? "\nhint: a model goes to --weights, its .solverstate to --resume"
                         : "";
  KINET_CHECK(kind == FileKind::kSolverState, "{}: not a solver state (.solverstate) but {}{}",
              path, file_kind_name(kind), hint);
  SolverState proto;
  KINET_CHECK(proto.ParseFromString(bytes) && proto.has_iter() && proto.has_learned_net() &&
                  proto.iter() >= 0 &&
                  (!proto.has_kinet() || proto.kinet().history_entries() == proto.history_size()),
              "{}: damaged or cut off ({}): this cannot be read as a .solverstate", path,
              human_bytes(bytes.size()));
  verify_checksum(bytes, proto.kinet().format_version() >= kFormatVersion, path);
  const std::string wrong = proto.has_kinet() ? wrong_number(proto.kinet(), proto.iter()) : "";
  KINET_CHECK(wrong.empty(), "{}: damaged: it says {}", path, wrong);
  Snapshot snapshot;
  snapshot.path = path;
  snapshot.iteration = proto.iter();
  snapshot.learned_net = proto.learned_net();
  for (const BlobProto& entry : proto.history()) {
    snapshot.history.push_back(read_entry(entry, path));
  }
  if (proto.has_kinet()) snapshot.extras = read_extras(proto.kinet());
  return snapshot;
}

Model read_model_of(const Snapshot& snapshot) {
  const std::string path = find_model(snapshot);
  const std::string bytes = read_file(path);
  if (snapshot.extras) {
    KINET_CHECK(snapshot.extras->model_hash == hash_name(bytes),
                "{}: not the model that {} was written with, or damaged", path, snapshot.path);
  }
  Model model = Model::parse(bytes, path);
  KINET_CHECK(snapshot.extras || !model.by_kinet(), "{}: cut off: the end of the state is missing",
              snapshot.path);
  return model;
}

}  // namespace kinet
