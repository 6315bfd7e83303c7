// Whether a JPEG or PNG file is whole. Decoders accept a JPEG that ends early and fill up with
// grey, which would be trained on in silence.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kinet {

// "" when the bytes are a complete JPEG or PNG file, or of another format (not judged here);
// otherwise what is wrong: "truncated JPEG (no end of image)".
std::string image_trouble(std::span<const uint8_t> bytes);

}  // namespace kinet
