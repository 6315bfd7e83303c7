#include "src/net/caffemodel.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/math/vec.h"
#include "src/net/checksum.h"
#include "src/proto/kinet/caffemodel.pb.h"

namespace kinet {
namespace {

constexpr int kFormatVersion = 2;  // from 2 on, a checksum ends the file

// Dimensions without leading and trailing ones: the data of 1x1x5x3 and 5x3 lie the same way.
std::vector<int64_t> without_outer_ones(const std::vector<int64_t>& dims) {
  auto first = dims.begin();
  auto last = dims.end();
  while (first != last && *first == 1) ++first;
  while (last != first && *(last - 1) == 1) --last;
  return {first, last};
}

bool is_legacy(const BlobProto& proto) {
  return proto.has_num() || proto.has_channels() || proto.has_height() || proto.has_width();
}

std::string shapes_text(const std::vector<ModelBlob>& blobs) {
  std::vector<std::string> out;
  for (const ModelBlob& blob : blobs) out.push_back(blob.shape.str());
  return out.empty() ? "nothing" : join(out, ", ");
}

std::string shapes_text(const Layer& layer) {
  std::vector<std::string> out;
  for (const Tensor& blob : layer.blobs()) out.push_back(blob.shape().str());
  return join(out, ", ");
}

bool fits(const ModelLayer& from, const Layer& to) {
  if (from.blobs.size() != to.blobs().size()) return false;
  for (size_t i = 0; i < from.blobs.size(); ++i) {
    if (!from.blobs[i].fits(to.blobs()[i].shape())) return false;
  }
  return true;
}

std::string misfit(const ModelLayer& from, const Layer& to) {
  return fmt::format("layer '{}' ({}) of the net has blobs {}; layer '{}' of the file has {}",
                     to.name(), to.type().type, shapes_text(to), from.name,
                     shapes_text(from.blobs));
}

void copy_layer(const ModelLayer& from, Layer& to) {
  for (size_t i = 0; i < from.blobs.size(); ++i) {
    std::copy(from.blobs[i].data.begin(), from.blobs[i].data.end(), to.blobs()[i].data());
  }
}

// Layers of the net that have blobs, each with the file's layer of that name or null. Reports all
// misfits at once.
std::vector<std::pair<Layer*, const ModelLayer*>> match(const Model& model, Net& net) {
  std::vector<std::pair<Layer*, const ModelLayer*>> pairs;
  std::vector<std::string> misfits;
  for (int i = 0; i < net.layer_count(); ++i) {
    Layer& layer = net.layer(i);
    if (layer.blobs().empty()) continue;
    const ModelLayer* from = model.find(layer.name());
    if (from != nullptr && from->blobs.empty()) from = nullptr;
    if (from != nullptr && !fits(*from, layer)) misfits.push_back(misfit(*from, layer));
    pairs.emplace_back(&layer, from);
  }
  KINET_CHECK(misfits.empty(),
              "{}: the weights do not fit the net:\n  {}\nhint: rename the layer in the net to "
              "train it afresh",
              model.path(), join(misfits, "\n  "));
  return pairs;
}

std::vector<std::string> unused_layers(const Model& model, const Net& net) {
  std::vector<std::string> unused;
  for (const ModelLayer& layer : model.layers()) {
    if (layer.blobs.empty()) continue;
    const int index = net.layer_index(layer.name);
    if (index < 0 || net.layer(index).blobs().empty()) unused.push_back(layer.name);
  }
  return unused;
}

}  // namespace

bool ModelBlob::fits(const Shape& wanted) const {
  if (static_cast<int64_t>(data.size()) != wanted.count()) return false;
  return legacy ? without_outer_ones(shape.dims()) == without_outer_ones(wanted.dims())
                : shape == wanted;
}

Model::Model() : proto_(std::make_unique<NetParameter>()) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;

Model Model::read(const std::string& path) { return parse(read_file(path), path); }

Model Model::parse(const std::string& bytes, const std::string& path) {
  const FileKind kind = file_kind(bytes);
  const char* hint = kind == FileKind::kSolverState
                         ? "\nhint: a solver state goes to --resume, its model to --weights"
                         : "";
  KINET_CHECK(kind == FileKind::kModel, "{}: not a model (.caffemodel) but {}{}", path,
              file_kind_name(kind), hint);
  Model model;
  model.path_ = path;
  KINET_CHECK(model.proto_->ParseFromString(bytes),
              "{}: damaged or cut off ({}): this cannot be read as a .caffemodel", path,
              human_bytes(bytes.size()));
  verify_checksum(bytes, model.proto_->kinet().format_version() >= kFormatVersion, path);
  model.add_layers();
  return model;
}

void Model::add_layers() {
  for (const LayerParameter& layer : proto_->layer()) {
    layers_.push_back({layer.name(), layer.type(), {}});
    for (const BlobProto& blob : layer.blobs()) {
      layers_.back().blobs.push_back(blob_of(blob, layer.name()));
    }
  }
  for (const V1LayerParameter& layer : proto_->layers()) {
    layers_.push_back({layer.name(), "", {}});
    for (const BlobProto& blob : layer.blobs()) {
      layers_.back().blobs.push_back(blob_of(blob, layer.name()));
    }
  }
  KINET_CHECK(!proto_->has_kinet() || proto_->kinet().layers() == proto_->layer_size(),
              "{}: cut off: {} of {} layers are there", path_, proto_->layer_size(),
              proto_->kinet().layers());
  KINET_CHECK(!layers_.empty(), "{}: holds no layers: cut off, or no model", path_);
}

ModelBlob Model::blob_of(const BlobProto& proto, const std::string& layer) {
  ModelBlob blob;
  blob.shape = shape_of(proto);
  blob.legacy = is_legacy(proto) && !proto.has_shape();
  if (proto.double_data_size() > 0) {
    converted_.emplace_back(proto.double_data().begin(), proto.double_data().end());
    blob.data = converted_.back();
  } else {
    blob.data = {proto.data().data(), static_cast<size_t>(proto.data_size())};
  }
  KINET_CHECK(static_cast<int64_t>(blob.data.size()) == blob.shape.count(),
              "{}: layer '{}': a blob of shape {} holds {} numbers: damaged", path_, layer,
              blob.shape.str(), blob.data.size());
  return blob;
}

const ModelLayer* Model::find(const std::string& layer) const {
  const auto it = std::find_if(layers_.begin(), layers_.end(),
                               [&](const ModelLayer& l) { return l.name == layer; });
  return it == layers_.end() ? nullptr : &*it;
}

bool Model::by_kinet() const { return proto_->has_kinet(); }

std::string WeightsReport::summary(const std::string& path) const {
  std::string text = fmt::format("loaded {} of {} layers from {}", loaded, total, path);
  if (!unused.empty()) text += "; unused in the file: " + join(unused, ", ");
  if (!uninitialised.empty()) text += "; not in the file: " + join(uninitialised, ", ");
  return text;
}

WeightsReport copy_weights(const Model& model, Net& net) {
  WeightsReport report;
  net.edit_on_host();
  for (const auto& [layer, from] : match(model, net)) {
    ++report.total;
    if (from == nullptr) {
      report.uninitialised.push_back(layer->name());
      continue;
    }
    copy_layer(*from, *layer);
    ++report.loaded;
  }
  report.unused = unused_layers(model, net);
  KINET_CHECK(report.loaded > 0,
              "{}: none of its layers is in the net\n  in the file: {}\n  in the net: {}",
              model.path(), join(report.unused, ", "), join(report.uninitialised, ", "));
  return report;
}

void restore_weights(const Model& model, Net& net) {
  const auto pairs = match(model, net);
  std::vector<std::string> missing;
  for (const auto& [layer, from] : pairs) {
    if (from == nullptr) missing.push_back(layer->name());
  }
  const std::vector<std::string> unused = unused_layers(model, net);
  KINET_CHECK(missing.empty() && unused.empty(),
              "{}: the model is of another net{}{}\nhint: resume with the solver file the run was "
              "started with, or start afresh with --weights",
              model.path(), missing.empty() ? "" : "; not in the file: " + join(missing, ", "),
              unused.empty() ? "" : "; not in the net: " + join(unused, ", "));
  net.edit_on_host();
  for (const auto& [layer, from] : pairs) copy_layer(*from, *layer);
}

std::string encode_caffemodel(Net& net, int64_t iteration) {
  net.to_host();
  NetParameter proto;
  proto.set_name(net.name());
  for (int i = 0; i < net.layer_count(); ++i) {
    const LayerSpec& spec = net.spec().layers[i];
    LayerParameter& layer = *proto.add_layer();
    layer.set_name(spec.name);
    layer.set_type(spec.type);
    for (const std::string& bottom : spec.bottoms) layer.add_bottom(bottom);
    for (const std::string& top : spec.tops) layer.add_top(top);
    layer.set_phase(net.layer(i).phase() == Phase::kTrain ? 0 : 1);
    for (const Tensor& blob : net.layer(i).blobs()) {
      blob_to_proto(blob.shape(), blob.data(), *layer.add_blobs());
    }
  }
  proto.mutable_kinet()->set_format_version(kFormatVersion);
  proto.mutable_kinet()->set_layers(proto.layer_size());
  proto.mutable_kinet()->set_iteration(iteration);
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) fail_runtime("the model is too large for one file (2 GB)");
  append_checksum(bytes);
  return bytes;
}

std::string first_non_finite_parameter(Net& net) {
  net.to_host();
  for (int i = 0; i < net.layer_count(); ++i) {
    const std::vector<Tensor>& blobs = net.layer(i).blobs();
    for (size_t b = 0; b < blobs.size(); ++b) {
      if (vec().all_finite(blobs[b].count(), blobs[b].data())) continue;
      return fmt::format("{}[{}]", net.layer(i).name(), b);
    }
  }
  return "";
}

// Caffe writes a state's iteration first (field 1, a number: byte 08); a model begins with its name
// (field 1, a string: 0A), a V1 layer (12), an input (1A) or a layer (field 100: A2 06).
FileKind file_kind(const std::string& bytes) {
  const auto at = [&](size_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0; };
  if (bytes.starts_with("\x89HDF")) return FileKind::kHdf5;
  const size_t head = std::min<size_t>(bytes.size(), 64);
  const bool text = head > 1 && std::all_of(bytes.begin(), bytes.begin() + head, [](char c) {
                      return std::isprint(static_cast<unsigned char>(c)) || std::isspace(c);
                    });
  if (text) return FileKind::kText;
  if (at(0) == 0x08) return FileKind::kSolverState;
  if (at(0) == 0x0A || at(0) == 0x12 || at(0) == 0x1A) return FileKind::kModel;
  if (at(0) == 0xA2 && at(1) == 0x06) return FileKind::kModel;
  return FileKind::kUnknown;
}

std::string file_kind_name(FileKind kind) {
  switch (kind) {
    case FileKind::kModel:
      return "a model (.caffemodel)";
    case FileKind::kSolverState:
      return "a solver state (.solverstate)";
    case FileKind::kHdf5:
      return "an HDF5 file, which this version does not read";
    case FileKind::kText:
      return "text (a prototxt file?)";
    case FileKind::kUnknown:
      break;
  }
  return "something else";
}

void blob_to_proto(const Shape& shape, const float* data, BlobProto& proto) {
  for (const int64_t dim : shape.dims()) proto.mutable_shape()->add_dim(dim);
  if (shape.axes() == 0) proto.mutable_shape();  // a scalar still has a shape
  proto.mutable_data()->Add(data, data + shape.count());
}

Shape shape_of(const BlobProto& proto) {
  if (proto.has_shape() || !is_legacy(proto)) {
    return Shape(std::vector<int64_t>(proto.shape().dim().begin(), proto.shape().dim().end()));
  }
  return Shape{proto.num(), proto.channels(), proto.height(), proto.width()};
}

}  // namespace kinet
