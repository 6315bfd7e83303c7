#include "layers/batch_data_layer.h"

#include <algorithm>
#include <filesystem>

#include "src/base/memory.h"

namespace kinet {
namespace {

constexpr int64_t kMaxPrefetch = 1024;  // batches; each holds its own memory
constexpr int64_t kMaxThreads = 8;      // that decode

int64_t bounded(const Params& source, const std::string& field, int64_t low, int64_t high) {
  const int64_t value = source.get_int(field);
  if (value < low || value > high) {
    fail_at(source.where(field),
            fmt::format("{} is {}, but must lie between {} and {}", field, value, low, high));
  }
  return value;
}

}  // namespace

LayerType BatchDataLayer::describe_data(const std::string& type, const std::string& help,
                                        const MessageType& message) {
  LayerType t;
  t.type = type;
  t.help = help;
  t.fields = {message_field(message.name, message, "Where the items are and how they are read."),
              message_field("transform_param", transform_fields(), "What is done to each image.")};
  t.min_bottoms = t.max_bottoms = 0;
  t.max_tops = 2;
  t.is_data = true;
  t.host_ok = true;
  return t;
}

std::vector<Field> BatchDataLayer::common_fields(const std::string& batch_size_default,
                                                 const std::string& shuffle_help) {
  return {
      uint_field("batch_size", batch_size_default, "Items in one batch."),
      bool_field("shuffle", "", shuffle_help),
      uint_field("prefetch", "4", "Batches made ahead of their use; 0 = none, without a thread."),
      uint_field("threads", "1", "Threads that make batches, 1 to 8, at most one a batch ahead."),
      enum_field("on_error", {{"FAIL", 0}, {"SKIP", 1}}, "FAIL",
                 "An item that cannot be read: FAIL stops and names it, SKIP takes the next "
                 "readable item of the data set instead, and counts."),
  };
}

std::vector<Field> BatchDataLayer::with(std::vector<Field> own, std::vector<Field> common) {
  own.insert(own.end(), std::make_move_iterator(common.begin()),
             std::make_move_iterator(common.end()));
  return own;
}

std::string BatchDataLayer::existing_path(const Params& source, const std::string& field) const {
  const std::string written = source.get_string(field);
  if (written.empty()) fail_here(fmt::format("{} is not given", field));
  return existing_path(written, source.where(field));
}

std::string BatchDataLayer::existing_path(const std::string& written, const Position& where) const {
  const std::string path = resolve_path(written, where);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    fail_at(where,
            fmt::format("layer '{}': no such file or folder: {}\nhint: 'kinet convert' makes "
                        "databases and mean images; 'kinet check FILE --shape 3,224,224' "
                        "looks at the net without its data",
                        name(), describe_path(written, where)));
  }
  return path;
}

void BatchDataLayer::set_up(const std::vector<Shape>&) {
  const Params source = source_params();
  const int64_t batch = source.get_int("batch_size");
  if (batch < 1) fail_here("batch_size must be given, and be at least 1");
  PrefetchOptions options;
  options.depth = static_cast<int>(bounded(source, "prefetch", 0, kMaxPrefetch));
  options.threads = static_cast<int>(bounded(source, "threads", 1, kMaxThreads));
  const bool shuffle = source.has("shuffle") ? source.get_bool("shuffle")
                                             : phase() == Phase::kTrain && shuffles_in_training();
  const TransformSpec transform = read_transform(params("transform_param"));
  try {
    auto maker = std::make_unique<BatchMaker>(
        open(source, transform), Transformer(transform, phase()),
        OrderKey{shuffle, seed(), hash_name(name())}, batch, source.get_enum("on_error") == "SKIP");
    prefetcher_ = std::make_unique<Prefetcher>(std::move(maker), options);
    source_ = std::make_unique<PrefetchedSource>(*prefetcher_);
  } catch (const Error& error) {
    rethrow_here(error, error.kind());
  }
}

// Errors of the data itself know nothing of the layer; those of fields have a position already.
void BatchDataLayer::rethrow_here(const Error& error, Error::Kind kind) const {
  const std::string message = error.what();
  const Position at = where();
  if (at.file && message.starts_with(*at.file + ":")) throw Error(message, kind);
  throw Error(fmt::format("{}: layer '{}' ({}): {}", at.str(), name(), type().type, message), kind);
}

std::vector<Shape> BatchDataLayer::reshape(const std::vector<Shape>&, WorkspacePlan&) {
  const ImageSize size = prefetcher_->maker().first_size();
  const int64_t batch = prefetcher_->maker().batch_size();
  const int64_t ahead = prefetcher_->options().depth;
  std::vector<Shape> tops{Shape{batch, size.channels, size.height, size.width}};
  check_memory(static_cast<uint64_t>(tops[0].count()) * static_cast<uint64_t>(1 + ahead),
               fmt::format("batch_size {} of images {}x{}x{} with prefetch {}", batch,
                           size.channels, size.height, size.width, ahead));
  if (top_count() > 1) tops.push_back(Shape{batch});
  return tops;
}

void BatchDataLayer::forward(const Context&, Tensors, Tensors tops) {
  try {
    prefetcher_->consume([&tops](const HostBatch& batch) { copy(batch, tops); });
  } catch (const Error& error) {
    rethrow_here(error, Error::Kind::kRuntime);
  }
}

BatchFeed::Batch BatchDataLayer::take() {
  try {
    return in_parts(prefetcher_->take());
  } catch (const Error& error) {
    rethrow_here(error, Error::Kind::kRuntime);
  }
}

BatchFeed::Batch BatchDataLayer::peek() { return in_parts(prefetcher_->peek()); }

void BatchDataLayer::lie_in(std::shared_ptr<DeviceMemory> device) {
  prefetcher_->lie_in(std::move(device));
}

BatchFeed::Batch BatchDataLayer::in_parts(std::shared_ptr<const HostBatch> batch) const {
  BatchFeed::Batch parts;
  if (batch == nullptr) return parts;
  const ImageSize& size = batch->size;
  parts.shapes.push_back(Shape{batch->items(), size.channels, size.height, size.width});
  parts.values.push_back(batch->data.data());
  if (top_count() > 1) {
    parts.shapes.push_back(Shape{batch->items()});
    parts.values.push_back(batch->label_memory.data());
  }
  parts.owner = std::move(batch);
  return parts;
}

void BatchDataLayer::copy(const HostBatch& batch, Tensors tops) {
  const Shape shape{batch.items(), batch.size.channels, batch.size.height, batch.size.width};
  if (tops[0]->shape() != shape) tops[0]->resize(shape);
  std::copy_n(batch.data.data(), shape.count(), tops[0]->data());
  if (tops.size() < 2) return;
  const Shape label_shape{batch.items()};
  if (tops[1]->shape() != label_shape) tops[1]->resize(label_shape);
  std::copy_n(batch.labels().data(), batch.items(), tops[1]->data());
}

std::string BatchDataLayer::summary() const {
  const bool shuffled = prefetcher_->maker().order().key().shuffle;
  return fmt::format("{}, batch {}{}", source_->describe(), source_->batch_size(),
                     shuffled ? ", shuffled" : "");
}

}  // namespace kinet
