// Little-endian numbers at fixed places of a buffer, whatever the machine's own order is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kinet {

template <class T>
void store_number(std::byte* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T load_number(const std::byte* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | (static_cast<T>(from[i]) << (8 * i)));
  }
  return value;
}

}  // namespace kinet
