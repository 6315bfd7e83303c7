#include "comm/verbs/proof.h"

#include "src/base/siphash.h"

namespace kinet::verbs {

uint64_t proof(const std::string& token, std::span<const uint32_t> facts) {
  return siphash(sip_key_of(token), std::as_bytes(facts));
}

}  // namespace kinet::verbs
