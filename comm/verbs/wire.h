// How numbers are packed: the 32 bits of immediate data that travel, and the 64 bits by which a
// completion names its request.
//
// Immediate data:
//   put      RDMA WRITE WITH IMMEDIATE: the put's notify value, all 32 bits
//   message  SEND WITH IMMEDIATE: kind (2 bits), pieces (16 bits), credits handed back (14 bits)
// A put larger than one work request: a message of kind kPieces with the number of writes that
// come before, on the same queue pair, then these writes, then the last one with the notify value.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace kinet::verbs {

enum class MessageKind : uint32_t { kData = 0, kCredits = 1, kPieces = 2, kControl = 3 };

struct MessageTag {
  MessageKind kind = MessageKind::kData;
  uint32_t pieces = 0;   // of kPieces
  uint32_t credits = 0;  // < 2^14
};

inline constexpr uint32_t kMostPieces = (1U << 16) - 1;

constexpr uint32_t pack(const MessageTag& tag) {
  return static_cast<uint32_t>(tag.kind) << 30 | tag.pieces << 14 | tag.credits;
}

constexpr MessageTag unpack(uint32_t immediate) {
  return {static_cast<MessageKind>(immediate >> 30), immediate >> 14 & 0xFFFF, immediate & 0x3FFF};
}

// A request's name. Receives are named by their slot alone, which is below 2^32.
enum class RequestKind : uint64_t { kReceive = 0, kSend = 1, kBye = 2 };

struct RequestId {
  RequestKind kind = RequestKind::kReceive;
  int rank = 0;         // below 2^14
  int lane = 0;         // below 2^6
  uint32_t epoch = 0;   // of the link, below 2^10: requests of an older one are dropped
  uint32_t number = 0;  // low bits of its number in the send window
};

constexpr uint32_t kEpochs = 1U << 10;

constexpr uint64_t pack(const RequestId& id) {
  return static_cast<uint64_t>(id.kind) << 62 | static_cast<uint64_t>(id.rank) << 48 |
         static_cast<uint64_t>(id.lane) << 42 | static_cast<uint64_t>(id.epoch) << 32 | id.number;
}

constexpr RequestId unpack_request(uint64_t id) {
  return {static_cast<RequestKind>(id >> 62), static_cast<int>(id >> 48 & 0x3FFF),
          static_cast<int>(id >> 42 & 0x3F), static_cast<uint32_t>(id >> 32 & 0x3FF),
          static_cast<uint32_t>(id)};
}

// The full number from its low bits; `before`: a number not above it and less than 2^32 below.
constexpr uint64_t full_number(uint32_t low, uint64_t before) {
  return before + (low - static_cast<uint32_t>(before));
}

// ---- the greeting: the first message of each side
struct Greeting {
  uint32_t magic = kMagic;
  uint32_t rank = 0, incarnation = 0;
  uint32_t unused = 0;
  uint64_t proof = 0;  // that the sender knows the run's token: see proof.h
  static constexpr uint32_t kMagic = 0x4B76'6231;
};

// Control messages say what they are in the place of `pieces`.
inline constexpr uint32_t kGreetingCode = 0, kByeCode = 1;

}  // namespace kinet::verbs
