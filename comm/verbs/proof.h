// A proof that the sender of a greeting knows the secret of the run, good for one pair of queue
// pairs only.
// Reference: Aumasson and Bernstein, SipHash: a fast short-input PRF (2012); SipHash-2-4.
// Thread safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace kinet::verbs {

uint64_t siphash(const std::array<uint64_t, 2>& key, std::span<const uint8_t> bytes);

// `facts`: ranks, incarnations, numbers and first packets of both queue pairs, sender's first.
uint64_t proof(const std::string& token, std::span<const uint32_t> facts);

}  // namespace kinet::verbs
