#include "comm/rendezvous_wire.h"

#include <fmt/format.h>

#include <cmath>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr std::string_view kMagic = "KNTR";
constexpr size_t kLengthBytes = 4;
constexpr uint32_t kMaxMembers = 65536;        // ranks of a run
constexpr size_t kMaxName = 1024;              // bytes of node and host
constexpr uint32_t kMaxFingerprint = 1 << 20;  // items; a line of a net is one

void append_little_endian(uint64_t value, size_t bytes, std::string& out) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Takes the same time wherever the first difference is.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

void write_member(const Member& m, FrameWriter& out) {
  out.text(m.node).text(m.host).wide(static_cast<uint64_t>(m.process)).number(m.incarnation);
}

Member read_member(FrameReader& in) {
  Member m;
  m.node = in.text();
  m.host = in.text();
  m.process = static_cast<int64_t>(in.wide());
  m.incarnation = in.number();
  return m;
}

}  // namespace

FrameWriter& FrameWriter::number(uint32_t value) {
  append_little_endian(value, 4, body_);
  return *this;
}

FrameWriter& FrameWriter::wide(uint64_t value) {
  append_little_endian(value, 8, body_);
  return *this;
}

FrameWriter& FrameWriter::text(std::string_view value) {
  number(static_cast<uint32_t>(value.size()));
  body_.append(value);
  return *this;
}

std::string FrameWriter::frame(RendezvousKind kind) const {
  if (body_.size() + 1 > kMaxRendezvousFrame) {
    fail_runtime("a message of {} bytes to the rendezvous: more than {}", body_.size(),
                 kMaxRendezvousFrame);
  }
  std::string out;
  append_little_endian(body_.size() + 1, kLengthBytes, out);
  out.push_back(static_cast<char>(kind));
  return out + body_;
}

uint64_t FrameReader::little_endian(size_t bytes) {
  if (!good_ || rest_.size() < bytes) {
    good_ = false;
    return 0;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  }
  rest_.remove_prefix(bytes);
  return value;
}

std::string FrameReader::text() {
  const uint32_t size = number();
  if (!good_ || size > rest_.size()) {
    good_ = false;
    return "";
  }
  std::string out(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return out;
}

FrameSplitter::Result FrameSplitter::next(size_t limit, RendezvousFrame& frame) {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() >= kLengthBytes) {
    const uint32_t length = FrameReader(rest.substr(0, kLengthBytes)).number();
    if (length == 0 || length > limit) return Result::kBadLength;
    if (rest.size() >= kLengthBytes + length) {
      frame.kind = static_cast<RendezvousKind>(rest[kLengthBytes]);
      frame.body = rest.substr(kLengthBytes + 1, length - 1);
      begin_ += kLengthBytes + length;
      return Result::kFrame;
    }
  }
  buffer_.erase(0, begin_);  // once a read, not once a frame
  begin_ = 0;
  return Result::kNothingYet;
}

std::string hello_frame(const std::string& token) {
  return FrameWriter()
      .text(kMagic)
      .number(kRendezvousVersion)
      .text(token)
      .frame(RendezvousKind::kHello);
}

HelloVerdict read_hello(const RendezvousFrame& frame, const std::string& token) {
  FrameReader in(frame.body);
  if (frame.kind != RendezvousKind::kHello || in.text() != kMagic) {
    return {"it is no rank of kinet", false};
  }
  const uint32_t version = in.number();
  const std::string given = in.text();
  if (!in.complete()) return {"its greeting is damaged", false};
  if (!equal_in_constant_time(given, token)) return {"wrong run token", false};
  if (version == kRendezvousVersion) return {"", true};
  return {fmt::format("this rank speaks version {} of the rendezvous, the run version {}\n"
                      "hint: start all ranks from the same build",
                      version, kRendezvousVersion),
          true};
}

std::string join_frame(const JoinRequest& request, double timeout) {
  FrameWriter out;
  out.number(static_cast<uint32_t>(request.rank)).number(static_cast<uint32_t>(request.size));
  out.text(request.node).text(request.host).wide(static_cast<uint64_t>(request.process));
  out.wide(static_cast<uint64_t>(timeout * 1e3));
  out.number(static_cast<uint32_t>(request.fingerprint.size()));
  for (const auto& [name, value] : request.fingerprint) out.text(name).text(value);
  return out.frame(RendezvousKind::kJoin);
}

std::optional<JoinFrame> read_join(const RendezvousFrame& frame) {
  FrameReader in(frame.body);
  JoinFrame out;
  out.request.rank = static_cast<Rank>(in.number());
  out.request.size = static_cast<int>(in.number());
  out.request.node = in.text();
  out.request.host = in.text();
  out.request.process = static_cast<int64_t>(in.wide());
  out.timeout = static_cast<double>(in.wide()) / 1e3;
  const uint32_t items = in.number();
  const JoinRequest& r = out.request;
  if (items > kMaxFingerprint || r.node.size() > kMaxName || r.host.size() > kMaxName) {
    return std::nullopt;
  }
  for (uint32_t i = 0; i < items && in.good(); ++i) {
    const std::string name = in.text();
    out.request.fingerprint.emplace_back(name, in.text());
  }
  if (!in.complete()) return std::nullopt;
  return out;
}

std::string world_frame(const World& world) {
  FrameWriter out;
  out.number(static_cast<uint32_t>(world.rank));
  out.number(static_cast<uint32_t>(world.members.size()));
  for (const Member& m : world.members) write_member(m, out);
  return out.frame(RendezvousKind::kWorld);
}

std::optional<World> read_world(const RendezvousFrame& frame) {
  FrameReader in(frame.body);
  World world;
  world.rank = static_cast<Rank>(in.number());
  const uint32_t size = in.number();
  if (size > kMaxMembers) return std::nullopt;
  for (uint32_t r = 0; r < size && in.good(); ++r) world.members.push_back(read_member(in));
  world.size = static_cast<int>(size);
  if (!in.complete() || world.rank < 0 || world.rank >= world.size) return std::nullopt;
  return world;
}

std::string joined_frame(Rank rank, const Member& member) {
  FrameWriter out;
  out.number(static_cast<uint32_t>(rank));
  write_member(member, out);
  return out.frame(RendezvousKind::kJoined);
}

std::string lost_frame(RendezvousKind kind, Rank rank, uint32_t incarnation,
                       const std::string& why) {
  return FrameWriter()
      .number(static_cast<uint32_t>(rank))
      .number(incarnation)
      .text(why)
      .frame(kind);
}

std::optional<MemberNews> read_news(const RendezvousFrame& frame) {
  FrameReader in(frame.body);
  MemberNews news;
  news.rank = static_cast<Rank>(in.number());
  news.lost = frame.kind != RendezvousKind::kJoined;
  if (news.lost) {
    news.member.incarnation = in.number();
    news.why = in.text();
  } else {
    news.member = read_member(in);
  }
  if (!in.complete()) return std::nullopt;
  return news;
}

}  // namespace kinet
