// Compression of pushes as sync_param has it (compress, compress_*): what was asked for, whether it
// makes sense, and a worker's end of it, with a codec for the slice of each server.
//
// Who does what:
//   clipping      with a codec that has a memory (TOPK, SIGN) the worker clips its gradient before
//                 the memory, at clip_gradients / sqrt(N) as DGC does, and the servers do not;
//                 with the others the servers clip what arrives, as always
//   momentum      TOPK, where pushes are gradients and compress_momentum is set: the worker has it
//                 (momentum correction), and the weight decay; the servers take plain steps
//   norms         that of a push in its header is of what arrives: k rules and clipping compare it
//                 with the mean of what has arrived
// Thread safety: none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/prototxt/fields.h"
#include "src/sync/codec.h"
#include "src/sync/rule.h"

namespace kinet {

struct SyncLayout;
struct ShardSetup;

// Fields of sync_param.
std::vector<Field> compress_fields();

struct CompressSettings {
  std::string codec;      // "TOPK"; "": pushes are sent as they are
  bool memory = false;    // of the codec
  bool corrects = false;  // momentum and decay are the worker's
  double clip = -1;       // local, before encoding; not positive: none
  CodecSetup setup;       // ratio, momentum, ...: what depends on neither slice nor worker

  bool any() const { return !codec.empty(); }
  std::string not_saved() const;  // in snapshots; "": all there is
  // What the workers did the servers leave out.
  void leave_out(ShardSetup& shard) const;
};

// Of a solver file. Throws Error at the place of what makes no sense.
CompressSettings read_compress(const Params& solver, int workers);

// For the slice of one server; null: pushes are sent as they are.
std::unique_ptr<PushCodec> make_codec(const CompressSettings& settings, const SyncLayout& layout,
                                      int server, std::span<const ParameterSegment> segments,
                                      uint64_t seed = 0, int worker = 0);

class PushCompressor {
 public:
  // `known`: of the arena. iter_size: micro-batches that the values are sums over.
  PushCompressor(const CompressSettings& settings, const SyncLayout& layout, RuleSetup known,
                 uint64_t seed, int worker);

  size_t bytes(int server, int64_t number) const { return codecs_[server]->encoded_bytes(number); }
  size_t most_bytes(int server) const { return codecs_[server]->most_bytes(); }

  // Before encoding: clips, and adds the decay at `weights` where that is the worker's.
  void prepare(std::span<const float> weights, std::span<float> values);
  // The slice of `server` out of all values into `out`; what arrives takes their place.
  void encode(int server, int64_t number, std::span<float> values, std::span<std::byte> out);

  int encode_passes() const { return codecs_.front()->encode_passes(); }
  int decode_passes() const { return codecs_.front()->decode_passes(); }

 private:
  const double clip_;
  const bool decays_;
  const RuleSetup known_;
  std::vector<std::unique_ptr<PushCodec>> codecs_;  // by server
  std::vector<size_t> begins_, ends_;
};

}  // namespace kinet
