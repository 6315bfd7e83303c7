// A proof that the sender of a greeting knows the secret of the run, good for one pair of queue
// pairs only: a SipHash of its facts under the run token (src/base/siphash.h).
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kinet::verbs {

// `facts`: ranks, incarnations, numbers and first packets of both queue pairs, sender's first.
uint64_t proof(const std::string& token, std::span<const uint32_t> facts);

}  // namespace kinet::verbs
