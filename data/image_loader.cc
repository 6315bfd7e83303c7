#include "data/image_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <limits>

#include "data/image_format.h"
#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/files.h"

namespace kinet {
namespace {

constexpr char kFileName[] = "libkinet_image.so";

// The folder of libkinet.so: the image library lies beside it, built and installed.
std::filesystem::path own_folder() {
  Dl_info info{};
  const auto* own = reinterpret_cast<const void*>(&build_info);
  if (dladdr(own, &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

const ImageLibrary* open_library() {
  const std::filesystem::path path = own_folder() / kFileName;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();  // one call: it clears itself
    fail(
        "images cannot be read: {} cannot be opened: {}\nhint: it is built where OpenCV "
        "(libopencv-imgcodecs-dev, libopencv-imgproc-dev) is installed; 'make deps' installs it",
        path.string(), reason ? reason : "unknown reason");
  }
  using Door = const ImageLibrary* (*)();
  const auto door = reinterpret_cast<Door>(dlsym(handle, kImageLibrarySymbol));
  KINET_CHECK(door != nullptr, "{}: not kinet's image library", path.string());
  const ImageLibrary* library = door();
  KINET_CHECK(library->version == kImageLibraryVersion,
              "{}: of another build of kinet\nhint: build kinet again", path.string());
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
