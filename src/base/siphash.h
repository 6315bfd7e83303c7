// SipHash-2-4: a hash of 64 bits under a key of 128, short proofs that somebody knows a secret.
//
// Reference: Aumasson and Bernstein, SipHash: a fast short-input PRF (2012).
// Thread safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kinet {

using SipKey = std::array<uint64_t, 2>;

uint64_t siphash(const SipKey& key, std::span<const std::byte> data);

// A key out of a secret text of any length: its two words are two hashes of the text.
SipKey sip_key_of(const std::string& secret);

}  // namespace kinet
