#include "layers/image_data.h"

#include "data/image_list.h"

namespace kinet {

LayerType ImageData::describe() {
  static const MessageType message{
      "image_data_param", "Image files named in a list.",
      with({path_field("source", "Text file of lines 'path label'."),
            path_field("root_folder",
                       "Folder that the paths in the list begin at. Without it: the current "
                       "folder, or the list's own when the images are found there."),
            uint_field("new_height", "0", "Resize to this height in pixels; 0 = as stored."),
            uint_field("new_width", "0", "Resize to this width in pixels; 0 = as stored."),
            bool_field("is_color", "true", "Three channels; false: one, grey."),
            no_effect(uint_field("rand_skip", "0", "The seed decides the order."))},
           common_fields("1", "A new order in each epoch."))};
  return describe_data("ImageData", "Images and labels from image files named in a list.", message);
}

std::shared_ptr<const Dataset> ImageData::open(const Params& source, const TransformSpec&) {
  ImageListOptions options;
  options.height = source.get_int32("new_height");
  options.width = source.get_int32("new_width");
  if ((options.height == 0) != (options.width == 0)) {
    fail_here("new_height and new_width must be given together");
  }
  options.mode = source.get_bool("is_color") ? ColorMode::kColor : ColorMode::kGrey;
  options.check_files = source.get_enum("on_error") == "FAIL";
  const std::string root = source.get_string("root_folder");
  if (!root.empty()) options.root = resolve_path(root, source.where("root_folder"));
  return open_image_list(existing_path(source, "source"), options);
}

KINET_REGISTER_LAYER(ImageData);

}  // namespace kinet
