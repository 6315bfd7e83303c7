#include "src/sync/sync_messages.h"

#include <algorithm>

namespace kinet {
namespace {

constexpr size_t kPartBytes = kMaxPayload - sizeof(PartHead);

template <class T>
void append(const std::vector<T>& items, std::vector<std::byte>& out) {
  const auto bytes = std::as_bytes(std::span(items));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void take(std::span<const std::byte>& bytes, size_t count, std::vector<T>& out) {
  const size_t size = count * sizeof(T);
  KINET_CHECK(size <= bytes.size(), "a command is cut off");
  out.resize(count);
  if (size > 0) std::memcpy(out.data(), bytes.data(), size);
  bytes = bytes.subspan(size);
}

}  // namespace

void send_parts(Communicator& comm, Rank peer, uint8_t kind, uint32_t number,
                std::span<const std::byte> bytes) {
  PartHead head;
  head.number = number;
  head.parts =
      static_cast<uint16_t>(std::max<size_t>(1, (bytes.size() + kPartBytes - 1) / kPartBytes));
  std::vector<std::byte> message;
  for (head.part = 0; head.part < head.parts; ++head.part) {
    const auto piece = bytes.subspan(head.part * kPartBytes,
                                     std::min(kPartBytes, bytes.size() - head.part * kPartBytes));
    const auto start = bytes_of(head);
    message.assign(start.begin(), start.end());
    message.insert(message.end(), piece.begin(), piece.end());
    comm.send(peer, kind, message);
  }
}

std::optional<std::vector<std::byte>> PartAssembler::add(std::span<const std::byte> payload) {
  KINET_CHECK(payload.size() >= sizeof(PartHead), "a message part is too short");
  PartHead head;
  std::memcpy(&head, payload.data(), sizeof(head));
  if (head.part == 0) bytes_.clear(), next_ = 0;  // of one that ended in between
  KINET_CHECK(head.part == next_, "part {} of a message came, {} was due", head.part, next_);
  const auto rest = payload.subspan(sizeof(head));
  bytes_.insert(bytes_.end(), rest.begin(), rest.end());
  if (++next_ < head.parts) return std::nullopt;
  next_ = 0;
  return std::exchange(bytes_, {});
}

std::vector<std::byte> Command::pack() const {
  CommandHead h = head;
  h.members = static_cast<uint32_t>(members.size());
  h.answers = static_cast<uint32_t>(answers.size());
  h.tests = static_cast<uint32_t>(tests.size());
  h.resets = static_cast<uint32_t>(resets.size());
  const auto start = bytes_of(h);
  std::vector<std::byte> out(start.begin(), start.end());
  append(members, out);
  append(answers, out);
  append(tests, out);
  append(resets, out);
  if (head.gather != 0) append(std::vector{state}, out);
  return out;
}

Command Command::unpack(std::span<const std::byte> bytes) {
  Command out;
  KINET_CHECK(bytes.size() >= sizeof(CommandHead), "a command is cut off");
  std::memcpy(&out.head, bytes.data(), sizeof(CommandHead));
  bytes = bytes.subspan(sizeof(CommandHead));
  take(bytes, out.head.members, out.members);
  take(bytes, out.head.answers, out.answers);
  take(bytes, out.head.tests, out.tests);
  take(bytes, out.head.resets, out.resets);
  std::vector<CommandState> state;
  take(bytes, out.head.gather != 0 ? 1 : 0, state);
  if (!state.empty()) out.state = state.front();
  KINET_CHECK(bytes.empty(), "a command is {} bytes too long", bytes.size());
  return out;
}

}  // namespace kinet
