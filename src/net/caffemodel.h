// Trained weights in Caffe's binary form (.caffemodel): written from a net, read from either
// program's files (V1 ones too), copied into a net by layer name.
//
// Invariants: a file is written under a temporary name and renamed, so a reader never sees half of
// one; a net is changed only after everything that fits was found to fit.
// Thread safety: none; one thread uses a Model at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/net/net.h"

namespace kinet {

class NetParameter;  // the protobuf message
class BlobProto;

// One blob as a file has it. `data` points into the model (or into `converted`).
struct ModelBlob {
  Shape shape;
  bool legacy = false;  // four fixed axes: 1x1x1x10 stands for 10
  std::span<const float> data;

  // Whether the data can be taken for a blob of `wanted` shape.
  bool fits(const Shape& wanted) const;
};

struct ModelLayer {
  std::string name, type;  // type is "" in V1 files
  std::vector<ModelBlob> blobs;
};

class Model {
 public:
  // Throws Error that says what the file is when it is not a model, and whether it is cut off.
  static Model read(const std::string& path);
  static Model parse(const std::string& bytes, const std::string& path);
  ~Model();
  Model(Model&&) noexcept;

  const std::string& path() const { return path_; }
  const std::vector<ModelLayer>& layers() const { return layers_; }
  const ModelLayer* find(const std::string& layer) const;
  bool by_kinet() const;  // written by this program

 private:
  Model();
  void add_layers();
  ModelBlob blob_of(const BlobProto& proto, const std::string& layer);

  std::string path_;
  std::unique_ptr<NetParameter> proto_;
  std::vector<ModelLayer> layers_;
  std::vector<std::vector<float>> converted_;  // of blobs stored as double
};

// What copy_weights did, layer by layer; layers without blobs do not count.
struct WeightsReport {
  int loaded = 0, total = 0;               // of the net's layers
  std::vector<std::string> unused;         // layers of the file that the net does not have
  std::vector<std::string> uninitialised;  // layers of the net that the file does not have
  std::string summary(const std::string& path) const;  // "loaded 3 of 4 layers from x; ..."
};

// Copies the blobs of every layer of that name. Throws Error when a blob does not fit (names the
// layers and both shapes, all misfits at once), or when not a single layer was found.
WeightsReport copy_weights(const Model& model, Net& net);

// The same, and every layer must be found on both sides: for resuming.
void restore_weights(const Model& model, Net& net);

// The bytes of a model file: every layer with its name, type, bottoms, tops and blobs.
std::string encode_caffemodel(Net& net, int64_t iteration);

// "conv1[0]" of the first parameter or buffer that holds NaN or Inf, or "".
std::string first_non_finite_parameter(Net& net);

// What a file is, by its first bytes.
enum class FileKind { kModel, kSolverState, kHdf5, kText, kUnknown };
FileKind file_kind(const std::string& bytes);
std::string file_kind_name(FileKind kind);  // "a model (.caffemodel)"

// Shapes and data between tensors and protobuf messages.
void blob_to_proto(const Shape& shape, const float* data, BlobProto& proto);
Shape shape_of(const BlobProto& proto);

}  // namespace kinet
