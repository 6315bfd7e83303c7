// What servers and workers tell each other; plain structures, sent as they lie in memory (all ranks
// of a run are the same build, which is checked when they meet).
//
//   worker -> every server   kHello     where its weights are to be put
//   server -> worker         kSlots     where its gradients are to be put
//   worker -> every server   kPiece     (puts) its gradient, in one piece or several; none when
//                                       it was computed where it belongs
//   worker -> lead           kGradient  that the whole of it is on its way, and what it is
//   server -> lead           kComplete  that a slice of it has arrived whole
//   lead -> other servers    kCommand   a plan to carry out
//   server -> worker         kWeights   (puts) the new weights; none when they are lent
//   lead -> worker           kAnswer    what they are, and what to compute next
// and beside these: kCancel, tests (kTestWeights, kTestTask, kTestSums), kWish, kStop and kBye,
// kNorms between servers, and kState (puts), the slices of the other servers for the lead.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "src/base/check.h"
#include "src/sync/sync.h"

namespace kinet {

enum SyncKind : uint8_t {
  kHelloKind = kSyncKind + 4,  // those before are of all-reduce bsp
  kSlotsKind,
  kPieceKind,
  kGradientKind,
  kCompleteKind,
  kCommandKind,
  kWeightsKind,
  kAnswerKind,
  kCancelKind,
  kTestWeightsKind,
  kTestTaskKind,
  kTestSumsKind,
  kWishKind,
  kStopKind,
  kByeKind,
  kNormsKind,
  kStateKind,
};

// A number that travels in the tag of a put.
inline uint32_t put_tag(int64_t number) {
  return static_cast<uint32_t>(static_cast<uint64_t>(number) & kMaxTag);
}

struct HelloMessage {
  uint64_t floats = 0, buffers = 0;  // of the worker's net: they have to be the server's
  RemoteRegion memory;               // gradients, then three copies of weights (worker_link.h)
  uint8_t lend_slots = 0;            // it would compute its gradients in the server's slots
  uint8_t lend_weights = 0;          // it would read the weights where they are published
};

struct SlotsMessage {
  RemoteRegion region;
  uint64_t begin = 0, end = 0;  // of the server's slice, in floats
  uint64_t slot_floats = 0;
  uint8_t lend_slots = 0, lend_weights = 0;  // it shall
};

// Numbers of a learning-rate search's state: LrSearchState has so many.
using SearchWords = std::array<uint64_t, 6>;

enum class Outcome : uint8_t {
  kGradient,
  kCancelled,
  kNotFinite,
  kBadWeights,  // those that it was to be computed at are not finite
};

struct GradientMessage {
  int64_t seq = 0, version = 0, batch = 0, steps = 1, samples = 0;
  double loss = 0, norm_squared = 0, rate = 1;
  double compute_seconds = 0, waiting_seconds = 0;
  SearchWords search{};  // state of the worker's learning-rate search, for snapshots
  int32_t buffer = 0;    // the copy of the weights that may be written next
  Outcome outcome = Outcome::kGradient;
  uint8_t in_slot = 0;  // it lies in its slot already: there are no pieces to come
};

struct CompleteMessage {
  int32_t worker = 0;
  uint32_t seq_tag = 0;
};

struct AnswerMessage {
  int64_t version = 0;  // of the weights
  int64_t seq = 0;      // number of the gradient to compute
  int64_t batch = 0;    // number of its first mini-batch among those of the worker
  int64_t iteration = 0;
  int64_t steps = 1;
  double learning_rate = 0;
  int32_t buffer = 0, slot = 0, k = 0;
  RemoteRegion weights{};  // where they are published; of no bytes: they were put
};

struct TestTaskMessage {
  int64_t iteration = 0;
  int32_t number = 0, share = 0, shares = 1;
  RemoteRegion weights{};  // as in AnswerMessage
};

struct WishMessage {
  bool stop = false, stop_now = false, snapshot = false;
};

struct StopMessage {
  int64_t iteration = 0;
};

struct NormsMessage {
  int64_t round = 0;
  std::array<double, 3> squares{};  // of one slice
};

// Head of a message that is longer than one may be: `part` of `parts`.
struct PartHead {
  uint32_t number = 0;
  uint16_t part = 0, parts = 1;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
T read_message(std::span<const std::byte> payload) {
  static_assert(std::is_trivially_copyable_v<T>);
  KINET_CHECK(payload.size() == sizeof(T), "a message of {} bytes came where {} were due",
              payload.size(), sizeof(T));
  T value;
  std::memcpy(&value, payload.data(), sizeof(T));
  return value;
}

// Long messages, cut and put together again. One assembler a sender and kind.
void send_parts(Communicator& comm, Rank peer, uint8_t kind, uint32_t number,
                std::span<const std::byte> bytes);
class PartAssembler {
 public:
  // The whole message once its last part is there.
  std::optional<std::vector<std::byte>> add(std::span<const std::byte> payload);

 private:
  std::vector<std::byte> bytes_;
  uint16_t next_ = 0;
};

// What the lead tells the other servers to do; they do it in the order in which it is told.
struct CommandHead {
  int64_t round = 0;  // version that it makes; of a plan without round: the current one
  int64_t step = 0;   // number of the update for the optimizer, from 1
  double learning_rate = 0;
  uint32_t members = 0, answers = 0, tests = 0, resets = 0;
  uint8_t applies = 0, measure = 0, product = 0, stop = 0;
  uint8_t gather = 0;  // nothing but: put your state where the lead says (state_gather.h)
};
struct CommandMember {
  PlanMember plan;
  double norm_squared = 0;
  int32_t slot = 0;
};
struct CommandPeer {
  int32_t worker = 0;
  uint32_t life = 0;  // how often it has said hello: not to be taken for its successor
};
struct CommandAnswer {
  CommandPeer to;
  int32_t buffer = 0;
};
struct CommandState {  // where the state of this server is to be put
  RemoteRegion region{};
  uint64_t offset = 0, blocks = 0;  // bytes; how many blocks are due
};
struct Command {
  CommandHead head;
  std::vector<CommandMember> members;
  std::vector<CommandAnswer> answers;
  std::vector<CommandPeer> tests;  // workers that get the weights to test
  CommandState state;              // sent only when head.gather is set
  std::vector<int32_t> resets;     // workers whose own momentum begins anew, before all else

  std::vector<std::byte> pack() const;
  static Command unpack(std::span<const std::byte> bytes);
};

}  // namespace kinet
