// The door between libkinet.so and libkinet_image.so: one table of functions, found by name with
// dlsym. Neither library sees more of the other than this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kinet {

struct Image {
  int channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // H W C; colour is blue, green, red
};

enum class ColorMode { kAsStored, kColor, kGrey };

// Functions return false with the reason in `error`; they throw nothing.
struct ImageLibrary {
  int version;  // kImageLibraryVersion of the library's build
  bool (*decode)(const uint8_t* bytes, size_t size, ColorMode mode, Image* out, std::string* error);
  bool (*resize)(Image* image, int height, int width, std::string* error);
  bool (*encode)(const Image& image, const char* extension, std::vector<uint8_t>* out,
                 std::string* error);
};

constexpr int kImageLibraryVersion = 1;  // goes up with every change of this header
constexpr char kImageLibrarySymbol[] = "kinet_image_library";

}  // namespace kinet
