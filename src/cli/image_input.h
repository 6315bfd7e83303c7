// Images named on a command line, made ready for a net: files (JPEG, PNG, ...) and items of IDX
// files ("t10k-images-idx3-ubyte.gz:7", "...:0-9").
//
// Steps:  decode (grey for one channel, colour for three) -> resize when the size is not what the
//         mean image, the crop or the net needs -> mean, scale and centre crop as in testing.
// Thread safety: none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/idx.h"
#include "data/image_library.h"
#include "data/transform.h"
#include "src/prototxt/node.h"
#include "src/tensor/shape.h"

namespace kinet {

struct ImageItem {
  std::string name;  // as shown: "cat.jpg", "t10k-images-idx3-ubyte.gz:7"
  std::string path;
  int64_t index = -1;  // of an IDX file; -1: an image file
};

// Throws Error when a file is missing or a range makes no sense.
std::vector<ImageItem> expand_items(const std::vector<std::string>& arguments);

// How a net wants its images. `data` is the layer they come from in testing: its transform_param
// and its image_data_param.new_height and new_width count.
struct ImageRecipe {
  TransformSpec transform;
  int new_height = 0, new_width = 0;  // 0: not said
};
ImageRecipe read_recipe(const ParamNode& data);

// --mean: a .binaryproto file, or values "104,117,123" in the order blue, green, red.
void set_mean(ImageRecipe& recipe, const std::string& mean);

class ImageReader {
 public:
  // `input` is N C H W of the net's input.
  ImageReader(const ImageRecipe& recipe, const Shape& input);

  // Writes C H W floats. Throws Error naming the item.
  void read(const ImageItem& item, float* out);
  // How the first image that had to be changed was changed (colour, size), or "".
  const std::string& note() const { return note_; }

 private:
  void read_file(const ImageItem& item, Sample& sample);
  void note_change(const ImageItem& item, const Image& made, int height, int width);
  void read_idx_item(const ImageItem& item, Sample& sample);

  Transformer transformer_;
  Shape input_;
  int resize_height_ = 0, resize_width_ = 0;
  std::string note_;
  bool looked_ = false;                       // at the colours of the first image
  std::map<std::string, IdxFile> idx_files_;  // read once each
};

}  // namespace kinet
