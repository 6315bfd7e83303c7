#include "layers/dummy_data.h"

#include "layers/blob_shape.h"

namespace kinet {
namespace {

const MessageType& dummy_data_fields() {
  static const MessageType type{
      "dummy_data_param",
      "shapes and contents of the tops",
      {bool_field("refill", "true",
                  "false: what fillers draw is made once and kept for all passes"),
       repeated(message_field("data_filler", filler_fields(),
                              "one for all tops or one for each; absent: constant 0")),
       repeated(message_field("shape", blob_shape_fields(), "one for all tops or one for each")),
       repeated(uint_field("num", "", "old form of the shape: samples")),
       repeated(uint_field("channels", "", "old form of the shape")),
       repeated(uint_field("height", "", "old form of the shape")),
       repeated(uint_field("width", "", "old form of the shape"))}};
  return type;
}

}  // namespace

LayerType DummyData::describe() {
  LayerType type;
  type.type = "DummyData";
  type.help = "tops made by fillers";
  type.fields = {message_field("dummy_data_param", dummy_data_fields(), "of DummyData")};
  type.min_bottoms = type.max_bottoms = 0;
  type.max_tops = -1;
  type.is_data = true;
  type.persistent_tops = true;
  type.host_ok = true;
  return type;
}

void DummyData::set_up(const std::vector<Shape>&) {
  const Params p = params("dummy_data_param");
  const auto tops = static_cast<size_t>(top_count());
  refill_ = p.get_bool("refill");
  for (const Params& filler : p.messages("data_filler")) fillers_.push_back(read_filler(filler));
  if (fillers_.empty()) fillers_.emplace_back();
  if (fillers_.size() == 1) fillers_.resize(tops, fillers_[0]);
  if (fillers_.size() != tops) {
    fail_here(fmt::format("{} data_filler for {} tops (none, one, or one for each)",
                          fillers_.size(), tops));
  }
  read_shapes(p);
  if (shapes_.size() == 1) shapes_.resize(tops, shapes_[0]);
  if (shapes_.size() != tops) {
    fail_here(fmt::format("{} shapes for {} tops (one, or one for each)", shapes_.size(), tops));
  }
}

void DummyData::read_shapes(const Params& p) {
  for (const Params& shape : p.messages("shape")) shapes_.push_back(read_blob_shape(shape));
  std::vector<std::vector<int64_t>> old;
  size_t longest = 0;
  for (const char* field : {"num", "channels", "height", "width"}) {
    old.push_back(p.get_ints(field));
    longest = std::max(longest, old.back().size());
  }
  if (longest > 0 && !shapes_.empty()) fail_here("give shape or num, channels, ..., not both");
  for (size_t top = 0; top < longest; ++top) {
    std::vector<int64_t> dims;
    for (const auto& values : old) {
      if (values.size() != 1 && values.size() != longest) {
        fail_here("num, channels, height and width must be given once, or once for each top");
      }
      dims.push_back(values.size() == 1 ? values[0] : values[top]);
      if (dims.back() < 1) fail_here("num, channels, height and width must be at least 1");
    }
    shapes_.emplace_back(dims);
  }
}

std::vector<Shape> DummyData::reshape(const std::vector<Shape>&, WorkspacePlan&) {
  filled_ = false;
  return shapes_;
}

void DummyData::forward(const Context& context, Tensors, Tensors tops) {
  for (size_t t = 0; t < tops.size(); ++t) {
    if (filled_ && (!refill_ || fillers_[t].type == "constant")) continue;
    Tensor& top = *tops[t];
    fill(fillers_[t], top.shape(), rng(RngPurpose::kDummy, static_cast<uint64_t>(context.pass), t),
         {top.data(), static_cast<size_t>(top.count())});
  }
  filled_ = true;
}

KINET_REGISTER_LAYER(DummyData);

}  // namespace kinet
