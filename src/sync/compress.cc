#include "src/sync/compress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/math/vec.h"
#include "src/sync/server_rank.h"
#include "src/sync/sync.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

std::string codec_help() {
  std::string help = "how workers write what they push (docs/compression.md). NONE: as it is";
  const CodecRegistry& registry = CodecRegistry::instance();
  for (const std::string& name : registry.names()) {
    help += fmt::format("; {}: {}", name, registry.find(name)->help);
  }
  return help;
}

std::vector<EnumValue> codec_values() {
  std::vector<EnumValue> values{{"NONE", 0}};
  for (const std::string& name : CodecRegistry::instance().names()) {
    values.push_back({name, static_cast<int>(values.size())});
  }
  return values;
}

double in_range(const Params& sync, const std::string& field, double least, double most) {
  const double value = sync.get_double(field);
  if (value >= least && value <= most) return value;
  fail_at(sync.where(field),
          fmt::format("{} must be {:g} to {:g}, got {:g}", field, least, most, value));
}

// The momentum of the solver file at the workers. The servers have none then, so whoever has one of
// another kind there cannot go with it.
void correct_momentum(const Params& solver, const SyncModel& model, CompressSettings& out) {
  const Params sync = solver.message("sync_param");
  const std::string type = solver.get_string("type"), name = sync.get_string("model");
  const char* hint =
      "\nhint: compress_momentum: false leaves momentum to the servers, and what is not sent is "
      "remembered all the same";
  if (type != "SGD" && type != "Nesterov") {
    fail_at(sync.where("compress"),
            fmt::format("TOPK takes the momentum to the workers, as SGD and Nesterov have it; {} "
                        "has not{}",
                        type, hint));
  }
  if (model.make_server_rule() != nullptr || name == "momentum_k_sync") {
    fail_at(sync.where("compress"),
            fmt::format("TOPK takes the momentum to the workers, {} has its own at the servers{}",
                        name, hint));
  }
  out.corrects = true;
  out.setup.momentum = solver.get_float("momentum");
  out.setup.nesterov = type == "Nesterov";
}

void check_rule(const Params& sync, const WorkerRule* rule, const CompressSettings& s) {
  if (rule == nullptr || !rule->pushes_weights() || s.codec == "FP16") return;
  fail_at(sync.where("compress"),
          fmt::format("{} pushes weights, which {} would spoil\nhint: compress: FP16, or NONE",
                      sync.get_string("model"), s.codec));
}

}  // namespace

std::vector<Field> compress_fields() {
  return {enum_field("compress", codec_values(), "NONE", codec_help()),
          float_field("compress_ratio", "0.001", "TOPK: the part of the values that is sent"),
          uint_field("compress_warmup", "0",
                     "TOPK: pushes of a worker for each stage of the warm-up, in which 25 %, 6.25 "
                     "%, 1.56 %, ... are sent until that is below compress_ratio (DGC: an epoch); "
                     "0: no warm-up"),
          bool_field("compress_momentum", "true",
                     "TOPK: momentum and weight decay of the solver file at the workers, before "
                     "compression (momentum correction); false: at the servers, after it"),
          float_field("compress_clip", "2.5",
                      "TERNARY: gradients are clipped at so many standard deviations of their "
                      "blob; 0: not")};
}

CompressSettings read_compress(const Params& solver, int workers) {
  CompressSettings out;
  const Params sync = solver.message("sync_param");
  const std::string codec = sync.get_enum("compress");
  if (codec == "NONE") return out;
  if (server_count(sync) == 0) {
    fail_at(sync.where("compress"),
            "pushes to servers can be compressed, and this run has none: the workers sum among "
            "themselves\nhint: servers: 1");
  }
  if (!solver.message("comm_param").get_bool("packed")) {
    fail_at(sync.where("compress"),
            "a compressed push is one message, and comm_param asks for one a parameter\nhint: "
            "packed: true");
  }
  out.codec = codec;
  out.memory = CodecRegistry::instance().find(codec)->memory;
  out.setup.ratio = in_range(sync, "compress_ratio", 1e-9, 1);
  out.setup.warmup = sync.get_int("compress_warmup");
  out.setup.deviations = in_range(sync, "compress_clip", 0, 1e9);
  const std::string search = solver.message("lr_search_param").get_enum("method");
  if (out.memory && search != "none") {
    fail_at(sync.where("compress"),
            fmt::format("{} sends parts of earlier gradients, which lr_search_param would give the "
                        "rate of the last one\nhint: compress: TERNARY or FP16, or no search",
                        codec));
  }
  const double momentum = solver.get_double("momentum");
  const auto model = make_sync_model(sync, {workers, momentum, solver.get_string("type")});
  const std::unique_ptr<WorkerRule> rule = model->make_worker_rule();
  check_rule(sync, rule.get(), out);
  if (rule != nullptr) return out;  // it clips its steps, and has its own momentum
  const double clip = solver.get_double("clip_gradients");
  if (out.memory && clip > 0) out.clip = clip / std::sqrt(static_cast<double>(workers));
  if (codec == "TOPK" && momentum > 0 && sync.get_bool("compress_momentum")) {
    correct_momentum(solver, *model, out);
  }
  return out;
}

std::string CompressSettings::not_saved() const {
  if (!memory) return "";
  return fmt::format("what the workers had not sent yet ({}: residuals{}); it is lost", codec,
                     corrects ? " and momenta" : "");
}

void CompressSettings::leave_out(ShardSetup& shard) const {
  if (clip > 0) shard.clip = -1;
  if (!corrects) return;
  shard.settings.momentum = 0;
  shard.settings.weight_decay = 0;
}

std::unique_ptr<PushCodec> make_codec(const CompressSettings& settings, const SyncLayout& layout,
                                      int server, std::span<const ParameterSegment> segments,
                                      uint64_t seed, int worker) {
  if (!settings.any()) return nullptr;
  CodecSetup setup = settings.setup;
  setup.begin = layout.begin(server);
  setup.floats = layout.end(server) - setup.begin;
  setup.seed = seed;
  setup.worker = worker;
  for (const ParameterSegment& s : cut_segments(segments, setup.begin, layout.end(server))) {
    setup.blocks.push_back({s.offset, s.count});
  }
  std::sort(setup.blocks.begin(), setup.blocks.end(),
            [](const CodecBlock& a, const CodecBlock& b) { return a.offset < b.offset; });
  auto codec = CodecRegistry::instance().find(settings.codec)->make();
  codec->set_up(setup);
  return codec;
}

PushCompressor::PushCompressor(const CompressSettings& settings, const SyncLayout& layout,
                               RuleSetup known, uint64_t seed, int worker)
    : clip_(settings.clip), decays_(settings.corrects), known_(std::move(known)) {
  layout.check();
  for (int s = 0; s < layout.servers; ++s) {
    codecs_.push_back(make_codec(settings, layout, s, known_.segments, seed, worker));
    begins_.push_back(layout.begin(s));
    ends_.push_back(layout.end(s));
  }
}

// Clipped is the mean over the micro-batches, as it is where nothing is compressed; the decay is of
// that mean as well.
void PushCompressor::prepare(std::span<const float> weights, std::span<float> values) {
  const auto parts = static_cast<double>(known_.iter_size);
  if (clip_ > 0) {
    const double norm = gradient_norm(values, known_.threads) / parts;
    if (norm > clip_) {
      vec().scale(static_cast<int64_t>(values.size()), static_cast<float>(clip_ / norm),
                  values.data(), values.data());
    }
  }
  if (decays_) add_weight_decay(known_, weights, parts, values);
}

void PushCompressor::encode(int server, int64_t number, std::span<float> values,
                            std::span<std::byte> out) {
  const std::span<float> slice = values.subspan(begins_[server], ends_[server] - begins_[server]);
  codecs_[server]->encode(number, slice, out);
  codecs_[server]->decode(number, out, slice);
}

}  // namespace kinet
