#include "data/image_loader.h"

#include <limits>

#include "data/image_format.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/shared_library.h"

namespace kinet {
namespace {

constexpr char kFileName[] = "libkinet_image.so";

const ImageLibrary* open_library() {
  std::string why;
  using Door = const ImageLibrary* (*)();
  const auto door = reinterpret_cast<Door>(open_own_library(kFileName, kImageLibrarySymbol, &why));
  KINET_CHECK(
      door != nullptr,
      "images cannot be read: {}\nhint: it is built where OpenCV "
      "(libopencv-imgcodecs-dev, libopencv-imgproc-dev) is installed; 'make deps' installs it",
      why);
  const ImageLibrary* library = door();
  KINET_CHECK(library->version == kImageLibraryVersion,
              "{}: of another build of kinet\nhint: build kinet again", kFileName);
  return library;
}

// Opened once, by whichever thread comes first; a failure is tried again at the next call.
const ImageLibrary& library() {
  static const ImageLibrary* const opened = open_library();
  return *opened;
}

}  // namespace

void require_image_library() { library(); }

void decode_image(std::span<const uint8_t> bytes, ColorMode mode, Image& out) {
  const std::string trouble = image_trouble(bytes);
  KINET_CHECK(trouble.empty(), "{}", trouble);
  KINET_CHECK(bytes.size() <= std::numeric_limits<int>::max(), "too large");
  std::string error;
  KINET_CHECK(library().decode(bytes.data(), bytes.size(), mode, &out, &error), "{}", error);
}

void resize_image(Image& image, int height, int width) {
  if (image.height == height && image.width == width) return;
  std::string error;
  KINET_CHECK(library().resize(&image, height, width, &error), "resizing to {}x{}: {}", height,
              width, error);
}

std::vector<uint8_t> encode_image(const Image& image, const std::string& extension) {
  std::vector<uint8_t> bytes;
  std::string error;
  KINET_CHECK(library().encode(image, extension.c_str(), &bytes, &error), "{} image: {}", extension,
              error);
  return bytes;
}

void load_image(const std::string& path, ColorMode mode, Image& out) {
  const std::string bytes = read_file(path);
  try {
    decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, mode, out);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

}  // namespace kinet
