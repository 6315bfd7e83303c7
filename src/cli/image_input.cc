// Items from arguments, the size an image is brought to, and the way through the transformer that
// data layers use too, so that classifying sees what testing sees.
#include "src/cli/image_input.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>

#include "data/image_loader.h"
#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

// A run of digits and nothing else.
std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

// "7" or "0-9" after the last colon.
struct ItemRange {
  int64_t first = 0, last = 0;
};
std::optional<ItemRange> parse_range(const std::string& text) {
  const size_t dash = text.find('-');
  const auto first = whole_number(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : whole_number(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return ItemRange{*first, *last};
}

// By the first bytes: 0, 0, the kind of number, the count of axes; or gzip, which no image is.
bool may_be_idx(const std::string& path) {
  unsigned char head[4] = {};
  std::ifstream in(path, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(head), sizeof head)) return false;
  const bool plain = head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] >= 1 && head[3] <= 4;
  return plain || (head[0] == 0x1f && head[1] == 0x8b);
}

void add_items(const std::string& argument, std::vector<ImageItem>& out) {
  std::error_code error;
  KINET_CHECK(!fs::is_directory(argument, error),
              "{}: is a folder\nhint: name the images in it: {}", argument,
              (fs::path(argument) / "*.jpg").string());
  if (fs::is_regular_file(argument, error)) {
    KINET_CHECK(!may_be_idx(argument),
                "{}: is no image, but looks like an IDX file, which holds many\nhint: {}:0 is its "
                "first item, {}:0-9 are the first ten",
                argument, argument, argument);
    out.push_back({argument, argument, -1});
    return;
  }
  const size_t colon = argument.rfind(':');
  const auto range =
      colon == std::string::npos ? std::nullopt : parse_range(argument.substr(colon + 1));
  KINET_CHECK(range && fs::is_regular_file(argument.substr(0, colon), error),
              "{}: no such file\nhint: give image files, or items of an IDX file as "
              "images-idx3-ubyte.gz:7 or :0-9",
              argument);
  KINET_CHECK(range->first <= range->last, "{}: the range ends before it begins", argument);
  const std::string path = argument.substr(0, colon);
  for (int64_t i = range->first; i <= range->last; ++i) {
    out.push_back({fmt::format("{}:{}", fs::path(path).filename().string(), i), path, i});
  }
}

int number_in(const ParamNode* message, const char* field) {
  const ParamNode* found = message == nullptr ? nullptr : message->find(field);
  return found == nullptr ? 0 : static_cast<int>(whole_number(found->text).value_or(0));
}

}  // namespace

std::vector<ImageItem> expand_items(const std::vector<std::string>& arguments) {
  std::vector<ImageItem> items;
  for (const std::string& argument : arguments) add_items(argument, items);
  return items;
}

ImageRecipe read_recipe(const ParamNode& data) {
  ImageRecipe recipe;
  recipe.transform = read_transform(Params(data.find("transform_param"), &transform_fields()));
  const ParamNode* image = data.find("image_data_param");
  recipe.new_height = number_in(image, "new_height");
  recipe.new_width = number_in(image, "new_width");
  return recipe;
}

void set_mean(ImageRecipe& recipe, const std::string& mean) {
  recipe.transform.mean.reset();
  recipe.transform.mean_values.clear();
  std::error_code error;
  if (fs::exists(mean, error)) {
    recipe.transform.mean = std::make_shared<MeanImage>(read_mean(mean));
    return;
  }
  for (size_t begin = 0; begin <= mean.size();) {
    const size_t end = std::min(mean.find(',', begin), mean.size());
    float value = 0;
    const auto [stop, code] = std::from_chars(mean.data() + begin, mean.data() + end, value);
    KINET_CHECK(code == std::errc() && stop == mean.data() + end,
                "--mean {}: neither a file nor numbers\nhint: --mean 104,117,123", mean);
    recipe.transform.mean_values.push_back(value);
    begin = end + 1;
  }
}

ImageReader::ImageReader(const ImageRecipe& recipe, const Shape& input)
    : transformer_(recipe.transform, Phase::kTest), input_(input) {
  const MeanImage* mean = recipe.transform.mean.get();
  if (recipe.new_height > 0 && recipe.new_width > 0) {
    resize_height_ = recipe.new_height, resize_width_ = recipe.new_width;
  } else if (mean != nullptr) {
    resize_height_ = mean->height, resize_width_ = mean->width;
  } else if (recipe.transform.crop_size == 0) {
    resize_height_ = static_cast<int>(input.height()),
    resize_width_ = static_cast<int>(input.width());
  }
}

// With a crop and nothing that tells the size before it, an image that is large enough stays as it
// is, and a smaller one is enlarged to the crop.
void ImageReader::read_file(const ImageItem& item, Sample& sample) {
  Image image;
  load_image(item.path, input_.channels() == 1 ? ColorMode::kGrey : ColorMode::kColor, image);
  const int height = image.height, width = image.width;
  const int crop = transformer_.spec().crop_size;
  if (resize_height_ > 0) {
    resize_image(image, resize_height_, resize_width_);
  } else if (image.height < crop || image.width < crop) {
    resize_image(image, std::max(image.height, crop), std::max(image.width, crop));
  }
  const bool resized = image.height != height || image.width != width;
  if (note_.empty() && (resized || !looked_)) note_change(item, image, height, width);
  looked_ = true;
  sample.set_image(std::move(image.pixels), image.channels, image.height, image.width);
}

// One image stands for all: the first, or the first of another size. It is decoded once more.
void ImageReader::note_change(const ImageItem& item, const Image& made, int height, int width) {
  Image stored;
  load_image(item.path, ColorMode::kAsStored, stored);
  std::vector<std::string> changes;
  if (stored.channels != made.channels) {
    changes.emplace_back(made.channels == 1 ? "made grey" : "given three channels");
  }
  if (made.height != height || made.width != width) {
    changes.push_back(fmt::format("resized from {}x{} to {}x{} (height x width)", height, width,
                                  made.height, made.width));
  }
  if (!changes.empty()) {
    note_ = fmt::format("{} is {}, as the net reads images; others alike", item.name,
                        join(changes, " and "));
  }
}

void ImageReader::read_idx_item(const ImageItem& item, Sample& sample) {
  auto found = idx_files_.find(item.path);
  if (found == idx_files_.end()) {
    found = idx_files_.emplace(item.path, read_idx(item.path)).first;
  }
  const IdxFile& file = found->second;
  const size_t axes = file.sizes.size();
  KINET_CHECK(axes == 3 || axes == 4,
              "{}: holds no images, but {} axes\nhint: give the images' file, "
              "not the labels'",
              item.path, axes);
  KINET_CHECK(item.index < file.sizes[0], "{}: the file has items 0 to {}", item.name,
              file.sizes[0] - 1);
  sample.channels = axes == 4 ? static_cast<int>(file.sizes[1]) : 1;
  sample.height = static_cast<int>(file.sizes[axes - 2]);
  sample.width = static_cast<int>(file.sizes[axes - 1]);
  sample.interleaved = false;
  sample.floats = nullptr;
  sample.bytes = file.values.data() + item.index * sample.pixels();
}

void ImageReader::read(const ImageItem& item, float* out) {
  Sample sample;
  if (item.index >= 0) {
    read_idx_item(item, sample);
  } else {
    read_file(item, sample);
  }
  const ImageSize size = transformer_.output_size(sample, item.name);
  KINET_CHECK(size.count() == input_.count(1) && size.channels == input_.channels(),
              "{}: gives {}x{}x{}, but the net reads {}x{}x{}", item.name, size.channels,
              size.height, size.width, input_.channels(), input_.height(), input_.width());
  transformer_.apply(sample, Rng(0), out);
}

}  // namespace kinet
