// The OpenCV side of data/image_loader.h; the only source of kinet that includes OpenCV.
//
// Thread safety: OpenCV's imdecode, resize and imencode are re-entrant. OpenCV's own threads are
// switched off: kinet alone divides work.
#include "data/image_library.h"

#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

namespace kinet {
namespace {

constexpr char kNoImage[] = "not an image, or a damaged one";
constexpr int kJpegQuality = 95;  // of 100; OpenCV's default, stated so that it cannot drift

int imread_flags(ColorMode mode) {
  switch (mode) {
    case ColorMode::kColor:
      return cv::IMREAD_COLOR;
    case ColorMode::kGrey:
      return cv::IMREAD_GRAYSCALE;
    case ColorMode::kAsStored:
      break;
  }
  return cv::IMREAD_ANYCOLOR;  // 8 bits; one or three channels, without alpha
}

void from_mat(const cv::Mat& mat, Image* out) {
  out->channels = mat.channels();
  out->height = mat.rows;
  out->width = mat.cols;
  const size_t row = static_cast<size_t>(mat.cols) * mat.channels();
  out->pixels.resize(row * mat.rows);
  for (int y = 0; y < mat.rows; ++y) {
    std::memcpy(out->pixels.data() + y * row, mat.ptr(y), row);
  }
}

// A header over the image's own memory. The const_cast is undone by using it as an input only.
cv::Mat view(const Image& image) {
  return cv::Mat(image.height, image.width, CV_8UC(image.channels),
                 const_cast<uint8_t*>(image.pixels.data()));
}

// OpenCV's messages name its own sources and assertions; these are for the owner of the image.
std::string plain_words(const cv::Exception& e, const char* otherwise) {
  if (e.code == cv::Error::StsNoMem) return "out of memory";
  if (e.err.find("CV_IO_MAX_IMAGE") == std::string::npos) return otherwise;
  return "too large: OpenCV decodes images of at most 2^20 pixels a side and 2^30 in all";
}

// Runs `body`; what OpenCV throws becomes a message: `otherwise`, unless more is known.
template <class Body>
bool guarded(std::string* error, const char* otherwise, const Body& body) {
  try {
    return body();
  } catch (const cv::Exception& e) {
    *error = plain_words(e, otherwise);
  } catch (const std::bad_alloc&) {
    *error = "out of memory";
  } catch (const std::exception&) {
    *error = otherwise;
  }
  return false;
}

bool decode(const uint8_t* bytes, size_t size, ColorMode mode, Image* out, std::string* error) {
  return guarded(error, kNoImage, [&] {
    const cv::Mat input(1, static_cast<int>(size), CV_8UC1, const_cast<uint8_t*>(bytes));
    const cv::Mat mat = cv::imdecode(input, imread_flags(mode));
    if (mat.empty()) {
      *error = kNoImage;
      return false;
    }
    from_mat(mat, out);
    return true;
  });
}

bool resize(Image* image, int height, int width, std::string* error) {
  return guarded(error, "impossible size", [&] {
    cv::Mat out;
    cv::resize(view(*image), out, cv::Size(width, height), 0, 0, cv::INTER_LINEAR);
    from_mat(out, image);
    return true;
  });
}

bool encode(const Image& image, const char* extension, std::vector<uint8_t>* out,
            std::string* error) {
  return guarded(error, "cannot be encoded", [&] {
    std::vector<int> options;
    if (std::strcmp(extension, ".jpg") == 0) options = {cv::IMWRITE_JPEG_QUALITY, kJpegQuality};
    if (cv::imencode(extension, view(image), *out, options)) return true;
    *error = "cannot be encoded";
    return false;
  });
}

}  // namespace
}  // namespace kinet

extern "C" __attribute__((visibility("default"))) const kinet::ImageLibrary* kinet_image_library() {
  static const kinet::ImageLibrary library = [] {
    cv::setNumThreads(1);
    // What OpenCV would print about bad files is in our own messages.
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    return kinet::ImageLibrary{kinet::kImageLibraryVersion, kinet::decode, kinet::resize,
                               kinet::encode};
  }();
  return &library;
}
