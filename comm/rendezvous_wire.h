// What travels between a rank and the rendezvous: frames of a length, a kind and a body.
//
//   4 bytes  length of what follows, little endian, 1 .. kMaxRendezvousFrame
//   1 byte   RendezvousKind
//   body     numbers little endian; a text is its length (4 bytes) and its bytes
//
// A connection begins with kHello: the word "KNTR", the protocol's version, the run token; before
// it is accepted a frame may have kMaxHello bytes only. Nothing here throws for what a peer sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comm/rendezvous.h"

namespace kinet {

inline constexpr size_t kMaxRendezvousFrame = size_t{4} << 20;  // bytes; addresses need hundreds
inline constexpr size_t kMaxHello = 512;                        // bytes, of a token of up to 400
inline constexpr size_t kMaxToken = 400;                        // bytes
inline constexpr uint32_t kRendezvousVersion = 1;

enum class RendezvousKind : uint8_t {
  kHello = 1,   // "KNTR", version, token
  kJoin,        // request, seconds to wait
  kSet,         // key, value
  kGet,         // number of the question, key
  kCancel,      // number of the question
  kReportLost,  // rank, incarnation, why
  kLeave,       // -
  // From the rendezvous:
  kWelcome = 65,  // -
  kWorld,         // rank, members
  kFailed,        // kind of error, text: the join failed
  kValue,         // number of the question, value
  kLost,          // rank, incarnation, why
  kJoined,        // rank, member
  kLeft,          // -: kLeave was seen
};

struct RendezvousFrame {
  RendezvousKind kind{};
  std::string body;
};

// Builds a body.
class FrameWriter {
 public:
  FrameWriter& number(uint32_t value);
  FrameWriter& wide(uint64_t value);
  FrameWriter& text(std::string_view value);
  // The whole frame. REQUIRES: it fits into kMaxRendezvousFrame.
  std::string frame(RendezvousKind kind) const;

 private:
  std::string body_;
};

// Takes a body apart; after the first thing that does not fit all answers are 0 and "".
class FrameReader {
 public:
  explicit FrameReader(std::string_view body) : rest_(body) {}
  uint32_t number() { return static_cast<uint32_t>(little_endian(4)); }
  uint64_t wide() { return little_endian(8); }
  std::string text();
  size_t bytes_left() const { return rest_.size(); }
  bool complete() const { return good_ && rest_.empty(); }  // all fitted, nothing is left over
  bool good() const { return good_; }

 private:
  uint64_t little_endian(size_t bytes);
  std::string_view rest_;
  bool good_ = true;
};

// Cuts a stream of bytes into frames.
class FrameSplitter {
 public:
  enum class Result { kNothingYet, kFrame, kBadLength };
  void add(const char* bytes, size_t count) { buffer_.append(bytes, count); }
  // `limit`: the longest frame that is taken now.
  Result next(size_t limit, RendezvousFrame& frame);
  size_t buffered() const { return buffer_.size(); }

 private:
  std::string buffer_;
  size_t begin_ = 0;
};

std::string hello_frame(const std::string& token);
struct HelloVerdict {
  std::string problem;       // "": welcome
  bool knows_token = false;  // it may be told what is wrong
};
// The token is compared in constant time.
HelloVerdict read_hello(const RendezvousFrame& frame, const std::string& token);

std::string join_frame(const JoinRequest& request, double timeout);
struct JoinFrame {
  JoinRequest request;
  double timeout = 0;
};
std::optional<JoinFrame> read_join(const RendezvousFrame& frame);

std::string world_frame(const World& world);  // without the token
std::optional<World> read_world(const RendezvousFrame& frame);

std::string joined_frame(Rank rank, const Member& member);
std::string lost_frame(RendezvousKind kind, Rank rank, uint32_t incarnation,
                       const std::string& why);

struct MemberNews {
  Rank rank = 0;
  bool lost = false;
  Member member;  // of a loss: the incarnation alone
  std::string why;
};
// Of kLost, kReportLost and kJoined.
std::optional<MemberNews> read_news(const RendezvousFrame& frame);

}  // namespace kinet
