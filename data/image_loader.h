// Decoding, resizing and encoding of images. The work is done by OpenCV in libkinet_image.so, which
// is opened on first need: linking OpenCV would cost every start of the program 0.15 s.
//
// Shapes: pixels lie as H W C; colour is blue, green, red.
// Thread safety: all functions may be called from several threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/image_library.h"

namespace kinet {

// Throws Error when the library cannot be opened; for whoever will surely need it.
void require_image_library();

// Decodes JPEG, PNG and what else OpenCV reads. Throws Error with the reason: empty, not an image,
// truncated (a truncated JPEG or PNG is an error even where OpenCV would fill up with grey).
void decode_image(std::span<const uint8_t> bytes, ColorMode mode, Image& out);

// Bilinear, to exactly that size; does nothing when the size is right.
void resize_image(Image& image, int height, int width);

// extension: ".jpg" (quality 95) or ".png".
std::vector<uint8_t> encode_image(const Image& image, const std::string& extension);

// Reads and decodes a file; messages name it.
void load_image(const std::string& path, ColorMode mode, Image& out);

}  // namespace kinet
