// Counter-based random numbers: every draw is a pure function of (seed, purpose, a, b, c, index).
//
// Nothing is drawn from a thread's or a process' state, so a run can be repeated, resumed in the
// middle, and split over threads or workers without changing a number.
//
// Generator: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// The key is the seed; the 128-bit counter is (draw block, stream), where the stream is a hash of
// purpose and the three words. Thread safety: a value type; share nothing, copy freely.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kinet {

enum class RngPurpose : uint32_t {
  kFiller = 1,   // a = owner layer (hash_name), b = blob index
  kShuffle = 2,  // a = layer, b = epoch
  kAugment = 3,  // a = layer, b = epoch, c = item
  kDropout = 4,  // a = layer, b = number of the sample in the run
  kDummy = 5,    // a = layer, b = pass, c = top
  kTest = 6,
  kNetwork = 7,    // a = sender and receiver, b = packet, c = attempt (transport sim)
  kClock = 8,      // a = task or machine, b = worker, c = gradient (kinet simulate)
  kObjective = 9,  // a = what is drawn, b = worker, c = mini-batch (src/sim)
  kCompress = 10,  // a = worker, b = number of the push, c = first float of the block
};

// A stable 64-bit hash of a name (FNV-1a, then mixed).
uint64_t hash_name(std::string_view name);

// The ten-round Philox block: four random words from counter and key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, uint64_t key);

// What Rng's constructor makes of purpose and a, before b and c are mixed in: for devices that draw
// the same numbers by themselves (cuda/philox.h).
uint64_t stream_prefix(RngPurpose purpose, uint64_t a);

class Rng {
 public:
  explicit Rng(uint64_t seed, RngPurpose purpose = RngPurpose::kTest, uint64_t a = 0,
               uint64_t b = 0, uint64_t c = 0);

  // Sequential draws.
  uint32_t next_u32();
  uint64_t next_u64();
  uint64_t below(uint64_t n);  // uniform in [0, n), without bias. REQUIRES: n > 0
  float uniform();             // [0, 1), 24 bits
  float uniform(float low, float high);
  float gaussian();  // mean 0, standard deviation 1 (Box-Muller)
  bool bernoulli(float p) { return uniform() < p; }

  // Random access: word `index` of this stream; does not move the sequence. Words 4i .. 4i+3 are
  // one Philox block, see block().
  uint32_t at(uint64_t index) const;
  std::array<uint32_t, 4> block(uint64_t index) const;

 private:
  uint64_t seed_, stream_;
  uint64_t next_block_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
  float spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace kinet
