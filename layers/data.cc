#include "layers/data.h"

#include "data/lmdb_dataset.h"

namespace kinet {

LayerType Data::describe() {
  static const MessageType message{
      "data_param", "A database of images.",
      with({path_field("source", "Folder of the LMDB database (or its data file)."),
            enum_field("backend", {{"LEVELDB", 0}, {"LMDB", 1}}, "LMDB",
                       "Kind of database: only LMDB is read."),
            no_effect(uint_field("rand_skip", "0", "The seed decides the order.")),
            bool_field("force_encoded_color", "false", "The same as transform_param force_color.")},
           common_fields("", "A new order in each epoch; by default true in TRAIN."))};
  return describe_data("Data", "Images and labels from an LMDB database.", message);
}

std::shared_ptr<const Dataset> Data::open(const Params& source, const TransformSpec& transform) {
  if (source.get_enum("backend") == "LEVELDB") {
    fail_at(source.where("backend"),
            "LevelDB databases are not read\nhint: make an LMDB of the images with 'kinet "
            "convert', and set backend: LMDB");
  }
  const std::string path = existing_path(source, "source");
  ColorMode mode = ColorMode::kAsStored;
  if (transform.force_color || source.get_bool("force_encoded_color")) mode = ColorMode::kColor;
  if (transform.force_gray) mode = ColorMode::kGrey;
  try {
    return open_lmdb(path, mode);
  } catch (const Error& error) {
    const Position where = source.where("source");
    fail_at(where, fmt::format("source {}: {}", describe_path(source.get_string("source"), where),
                               error.what()));
  }
}

KINET_REGISTER_LAYER(Data);

}  // namespace kinet
