#include "data/convert.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <span>

#include "data/image_loader.h"
#include "data/lmdb_writer.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/rng.h"
#include "src/base/text.h"
#include "src/proto/kinet/datum.pb.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

bool is_image_name(const fs::path& path) {
  constexpr std::array<const char*, 11> kExtensions{
      ".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".jp2", ".webp"};
  if (path.filename().string().starts_with('.')) return false;
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

std::vector<fs::path> sorted_entries(const fs::path& folder, bool folders) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with('.');
    const bool wanted = folders ? entry.is_directory() && !hidden
                                : entry.is_regular_file() && is_image_name(entry.path());
    if (wanted) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A new folder that becomes `output` at commit(), and goes away otherwise.
class StagedFolder {
 public:
  StagedFolder(std::string output, bool replace)
      : output_(strip(std::move(output))), staged_(output_ + fmt::format(".tmp-{}", ::getpid())) {
    std::error_code ignored;
    if (fs::exists(output_, ignored)) {
      KINET_CHECK(replace,
                  "{}: exists already\nhint: choose another name, or replace it with --force",
                  output_);
      // Only what is plainly a database is ever removed.
      KINET_CHECK(fs::exists(fs::path(output_) / "data.mdb", ignored) || is_empty_folder(),
                  "{}: is not a database, so it is not replaced", output_);
    }
    fs::remove_all(staged_, ignored);
    const fs::path parent = fs::path(output_).parent_path();
    if (!parent.empty()) check_writable(parent, /*make=*/true);
  }
  ~StagedFolder() {
    std::error_code ignored;
    fs::remove_all(staged_, ignored);
  }
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::string& path() const { return staged_; }
  void commit() {
    std::error_code error;
    const std::string old = output_ + fmt::format(".old-{}", ::getpid());
    const bool replacing = fs::exists(output_, error);
    if (replacing) fs::rename(output_, old, error);
    if (!error) fs::rename(staged_, output_, error);
    if (error) fail_runtime("{}: cannot be renamed to {}: {}", staged_, output_, error.message());
    if (replacing) fs::remove_all(old, error);
  }

 private:
  static std::string strip(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
  }
  bool is_empty_folder() const {
    std::error_code ignored;
    return fs::is_directory(output_, ignored) && fs::is_empty(output_, ignored);
  }

  const std::string output_, staged_;
};

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// H W C becomes C H W.
std::string planar(const Image& image) {
  const size_t plane = size_t{1} * image.height * image.width;
  std::string out(image.pixels.size(), '\0');
  for (int c = 0; c < image.channels; ++c) {
    for (size_t p = 0; p < plane; ++p) {
      out[c * plane + p] = static_cast<char>(image.pixels[p * image.channels + c]);
    }
  }
  return out;
}

Datum make_datum(const ImageListEntry& entry, const ConvertOptions& options) {
  const std::string file = read_file(entry.path);
  Image image;
  // Decoded even where the file's own bytes are kept: a bad image is found here, not in training.
  decode_image(as_bytes(file), options.grey ? ColorMode::kGrey : ColorMode::kColor, image);
  const bool resized =
      options.height > 0 && (image.height != options.height || image.width != options.width);
  if (resized) resize_image(image, options.height, options.width);
  Datum datum;
  datum.set_channels(image.channels);
  datum.set_height(image.height);
  datum.set_width(image.width);
  datum.set_label(static_cast<int32_t>(entry.label));
  datum.set_encoded(options.encoded);
  if (!options.encoded) {
    datum.set_data(planar(image));
  } else if (resized || options.grey) {
    const std::vector<uint8_t> bytes = encode_image(image, options.encode_as);
    datum.set_data(bytes.data(), bytes.size());
  } else {
    datum.set_data(file);
  }
  return datum;
}

void check_options(const ConvertOptions& o) {
  KINET_CHECK((o.height > 0) == (o.width > 0) && o.height >= 0 && o.width >= 0,
              "height and width must be given together, in pixels");
  KINET_CHECK(o.encode_as == ".png" || o.encode_as == ".jpg",
              "images can be encoded as .png or .jpg, not '{}'", o.encode_as);
  KINET_CHECK(!o.output.empty(), "no output folder is given");
}

std::vector<ImageListEntry> gather(const ConvertOptions& options, ConvertReport& report) {
  KINET_CHECK(fs::exists(options.input), "{}: no such list or folder", options.input);
  if (fs::is_directory(options.input)) return read_class_folders(options.input, report.classes);
  KINET_CHECK(!is_image_name(options.input),
              "{}: is an image\nhint: give the folder that holds one folder of images for each "
              "class, or a text file of lines 'path label'",
              options.input);
  std::vector<ImageListEntry> entries = read_image_list(options.input);
  ImageListPaths paths(options.input, options.root, entries);
  for (ImageListEntry& entry : entries) entry.path = paths.file(entry);
  return entries;
}

std::string labels_text(const std::vector<std::string>& classes) {
  std::string text;
  for (const std::string& name : classes) text += name + "\n";
  return text;
}

}  // namespace

std::vector<ImageListEntry> read_class_folders(const std::string& folder,
                                               std::vector<std::string>& classes) {
  std::vector<ImageListEntry> entries;
  for (const fs::path& path : sorted_entries(folder, /*folders=*/true)) {
    const auto label = static_cast<int64_t>(classes.size());
    classes.push_back(path.filename().string());
    for (const fs::path& file : sorted_entries(path, /*folders=*/false)) {
      entries.push_back({file.string(), label, 0});
    }
  }
  KINET_CHECK(!classes.empty(), "{}: holds no class folders (one sub-folder a class)", folder);
  KINET_CHECK(!entries.empty(), "{}: its {} class folders hold no images", folder, classes.size());
  return entries;
}

ConvertReport convert_images(const ConvertOptions& options, const ConvertProgress& progress) {
  check_options(options);
  require_image_library();
  ConvertReport report;
  std::vector<ImageListEntry> entries = gather(options, report);
  if (options.shuffle) {
    Rng rng(options.seed, RngPurpose::kShuffle);
    for (size_t i = entries.size() - 1; i > 0; --i)
      std::swap(entries[i], entries[rng.below(i + 1)]);
  }
  StagedFolder staged(options.output, options.force);
  LmdbWriter writer(staged.path());
  const auto total = static_cast<int64_t>(entries.size());
  for (int64_t i = 0; i < total; ++i) {
    const ImageListEntry& entry = entries[i];
    if (progress) progress(i, total);
    try {
      const Datum datum = make_datum(entry, options);
      writer.put(datum_key(report.items, fs::path(entry.path).filename().string()), datum);
      ++report.items;
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::kRuntime) throw;  // the disk's fault, not the image's
      const std::string where =
          entry.line > 0 ? fmt::format("{}:{}: ", options.input, entry.line) : "";
      const std::string message = fmt::format("{}{}: {}", where, entry.path, error.what());
      if (!options.skip_bad) fail("{}", message);
      if (report.skipped++ == 0) report.first_skipped = message;
    }
  }
  if (progress) progress(total, total);
  KINET_CHECK(report.items > 0, "{}\nnone of the {} images can be read", report.first_skipped,
              with_commas(total));
  writer.finish();
  if (!report.classes.empty()) {
    write_file_atomic(fs::path(staged.path()) / "labels.txt", labels_text(report.classes));
  }
  staged.commit();
  return report;
}

}  // namespace kinet
