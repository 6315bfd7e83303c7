#include "src/sync/number_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr uint32_t kLongest = 1U << 24;  // numbers of one rank

struct Header {
  uint32_t round = 0, length = 0, offset = 0, unused = 0;
};

constexpr size_t kNumbersInMessage = (kMaxPayload - sizeof(Header)) / sizeof(double);

}  // namespace

NumberExchange::NumberExchange(Communicator& comm, uint8_t kind) : comm_(comm), kind_(kind) {
  comm_.on_message(kind_, [this](Rank from, std::span<const std::byte> p) { take(from, p); });
}

NumberExchange::~NumberExchange() { comm_.on_message(kind_, nullptr); }

std::vector<NumberExchange::Part>& NumberExchange::round(uint32_t number) {
  std::vector<Part>& parts = got_[number];
  parts.resize(static_cast<size_t>(comm_.size()));
  return parts;
}

void NumberExchange::begin(std::span<const double> mine) {
  KINET_CHECK(mine.size() <= kLongest, "{} numbers are too many for an exchange", mine.size());
  comm_.locked([&] {
    Part& own = round(round_)[static_cast<size_t>(comm_.rank())];
    own.numbers.assign(mine.begin(), mine.end());
    own.begun = true;
  });
  size_t offset = 0;
  do {
    const size_t count = std::min(kNumbersInMessage, mine.size() - offset);
    const Header header{round_, static_cast<uint32_t>(mine.size()), static_cast<uint32_t>(offset),
                        0};
    std::array<std::byte, kMaxPayload> message{};
    std::memcpy(message.data(), &header, sizeof(header));
    if (count > 0) {
      std::memcpy(message.data() + sizeof(header), mine.data() + offset, count * sizeof(double));
    }
    for (Rank r = 0; r < comm_.size(); ++r) {
      if (r == comm_.rank()) continue;
      comm_.send(r, kind_, {message.data(), sizeof(header) + count * sizeof(double)});
    }
    offset += count;
  } while (offset < mine.size());
}

void NumberExchange::take(Rank from, std::span<const std::byte> payload) {
  Header header;
  KINET_CHECK(payload.size() >= sizeof(header), "{} sends {} bytes as numbers", comm_.name(from),
              payload.size());
  std::memcpy(&header, payload.data(), sizeof(header));
  const size_t bytes = payload.size() - sizeof(header), count = bytes / sizeof(double);
  const bool fits = bytes % sizeof(double) == 0 && header.length <= kLongest &&
                    header.offset + count <= header.length && header.round - round_ <= 1;
  KINET_CHECK(fits, "{} sends numbers that fit no exchange", comm_.name(from));
  Part& part = round(header.round)[static_cast<size_t>(from)];
  if (!part.begun) {
    part.numbers.resize(header.length);
    part.missing = header.length;
    part.begun = true;
  }
  KINET_CHECK(part.numbers.size() == header.length && count <= part.missing,
              "{} sends numbers twice", comm_.name(from));
  part.missing -= count;
  if (count > 0) {
    std::memcpy(part.numbers.data() + header.offset, payload.data() + sizeof(header), bytes);
  }
}

bool NumberExchange::any(const std::function<bool(const Numbers&)>& wanted) {
  comm_.progress();
  bool found = false;
  comm_.locked([&] {
    const std::vector<Part>& parts = round(round_);
    for (Rank r = 0; r < comm_.size(); ++r) {
      const Part& part = parts[static_cast<size_t>(r)];
      found = found || (r != comm_.rank() && part.complete() && wanted(part.numbers));
    }
  });
  return found;
}

bool NumberExchange::all_here() {
  bool all = true;
  const std::vector<Part>& parts = round(round_);
  for (Rank r = 0; r < comm_.size(); ++r) {
    if (parts[static_cast<size_t>(r)].complete()) continue;
    if (comm_.state(r) != PeerState::kAlive) {
      const std::string loss = comm_.first_loss();
      fail_runtime("{}", loss.empty() ? comm_.name(r) + " has left the run" : loss);
    }
    all = false;
  }
  return all;
}

std::vector<NumberExchange::Numbers> NumberExchange::finish(double timeout, const std::string& what,
                                                            const std::atomic<bool>* interrupted) {
  const auto cut_short = [interrupted] { return interrupted != nullptr && *interrupted; };
  comm_.wait_until([&] { return cut_short() || all_here(); }, timeout, what);
  std::vector<Numbers> all;
  comm_.locked([&] {
    for (Part& part : round(round_)) {
      if (!part.complete()) return all.clear();
      all.push_back(std::move(part.numbers));
    }
    got_.erase(round_++);
  });
  return all;
}

}  // namespace kinet
