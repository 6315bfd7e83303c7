// A way to write a push in fewer bytes: encoded at the worker, decoded at each server.
//
// A worker has one codec for the slice of each server, with what it remembers of earlier pushes
// (residuals, momenta); a server has one as well, of which it only decodes. The size of what is
// sent is known beforehand and does not depend on the values, so a push needs no header and is
// complete when its bytes are there.
//
// Notation: p what is to be sent, q = decode(encode(p)) what arrives, e the residual.
// Blocks: the parameters (Caffe's blobs) of the slice, or what of them lies in it; methods with a
//   scale have one a block. Floats between blocks are padding and arrive as zeros.
// Randomness: a function of (seed, worker, number of the push, block).
// Invariant: sizes are multiples of 4 bytes.
// Thread safety: none; encode() changes the memory of a codec, decode() nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/registry.h"

namespace kinet {

struct CodecBlock {
  size_t offset = 0, count = 0;  // floats within the slice
};

struct CodecSetup {
  size_t floats = 0, begin = 0;  // of the slice, and where it lies in the arena
  std::vector<CodecBlock> blocks;
  double ratio = 0.001;   // TOPK: part of the floats that is sent
  int64_t warmup = 0;     // TOPK: pushes of a stage of its warm-up
  float momentum = 0;     // TOPK: of the worker's own velocity; 0: it has none
  bool nesterov = false;  // the form of that
  double deviations = 0;  // TERNARY: clips at so many standard deviations; 0: does not
  uint64_t seed = 0;
  int worker = 0;
};

class PushCodec {
 public:
  virtual ~PushCodec() = default;
  virtual void set_up(const CodecSetup& setup) { setup_ = setup; }

  // Bytes of push `number` of a worker. Of its 24 low bits alone: servers know no more of it while
  // it arrives.
  virtual size_t encoded_bytes(int64_t number) const = 0;
  virtual size_t most_bytes() const { return encoded_bytes(0); }

  // REQUIRES: `in` is finite and of the slice's floats, `out` has encoded_bytes(number) bytes, at
  // an address that is a multiple of 4.
  virtual void encode(int64_t number, std::span<const float> in, std::span<std::byte> out) = 0;
  virtual void decode(int64_t number, std::span<const std::byte> in,
                      std::span<float> out) const = 0;

  // Times that a vector of the slice's length is read or written, for those who model time.
  virtual int encode_passes() const { return 2; }
  virtual int decode_passes() const { return 1; }

 protected:
  const CodecSetup& setup() const { return setup_; }

 private:
  CodecSetup setup_;
};

struct CodecType {
  std::string name;     // "TOPK"
  std::string help;     // a few words
  bool memory = false;  // what is not sent is remembered and sent later
  std::unique_ptr<PushCodec> (*make)() = nullptr;
};
using CodecRegistry = Registry<CodecType>;

template <class Class>
bool register_codec() {
  CodecType type = Class::describe_type();
  type.make = []() -> std::unique_ptr<PushCodec> { return std::make_unique<Class>(); };
  const std::string name = type.name;
  return CodecRegistry::instance().add(name, std::move(type));
}

#define KINET_REGISTER_CODEC(Class) \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_codec<Class>()

}  // namespace kinet
