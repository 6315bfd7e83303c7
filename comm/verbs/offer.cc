#include "comm/verbs/offer.h"

#include <fmt/format.h>

#include <sstream>

namespace kinet::verbs {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMostQueuePairs = 64;

std::string hex(const Gid& gid) {
  std::string out;
  for (const uint8_t byte : gid) out += fmt::format("{:02x}", byte);
  return out;
}

bool read_gid(std::istream& in, Gid& gid) {
  std::string text;
  if (!(in >> text) || text.size() != 32) return false;
  for (size_t i = 0; i < gid.size(); ++i) {
    const std::string pair = text.substr(2 * i, 2);
    char* end = nullptr;
    gid[i] = static_cast<uint8_t>(std::strtoul(pair.c_str(), &end, 16));
    if (end != pair.c_str() + 2) return false;
  }
  return true;
}

bool sensible(const Offer& offer) {
  return offer.port > 0 && offer.port < 256 && offer.lid >= 0 && offer.lid < 65536 &&
         offer.mtu >= 256 && offer.mtu <= 4096 && offer.max_message >= 4096 && offer.credits > 0 &&
         offer.credits < (1 << 24);
}

}  // namespace

std::string encode(const Offer& offer) {
  std::string out =
      fmt::format("verbs {} {} {} {} {} {} {} {} {} {} {}", kVersion, offer.host, offer.device,
                  offer.port, offer.ethernet ? 1 : 0, hex(offer.gid), offer.lid, offer.mtu,
                  offer.max_message, offer.credits, offer.queue_pairs.size());
  for (const QueuePairAddress& qp : offer.queue_pairs) {
    out += fmt::format(" {} {}", qp.number, qp.first_packet);
  }
  return out;
}

std::optional<Offer> decode(const std::string& text, std::string& why) {
  std::istringstream in(text);
  std::string word;
  int version = 0, ethernet = 0;
  size_t count = 0;
  Offer offer;
  why = "it is no offer of the verbs transport";
  if (!(in >> word >> version) || word != "verbs") return std::nullopt;
  why = fmt::format("it is of version {}, this build speaks {}", version, kVersion);
  if (version != kVersion) return std::nullopt;
  why = "it is cut off or holds rubbish";
  if (!(in >> offer.host >> offer.device >> offer.port >> ethernet) || !read_gid(in, offer.gid) ||
      !(in >> offer.lid >> offer.mtu >> offer.max_message >> offer.credits >> count) ||
      count == 0 || count > kMostQueuePairs || !sensible(offer)) {
    return std::nullopt;
  }
  offer.ethernet = ethernet != 0;
  for (size_t i = 0; i < count; ++i) {
    QueuePairAddress qp;
    if (!(in >> qp.number >> qp.first_packet)) return std::nullopt;
    if (qp.number > 0xFFFFFF || qp.first_packet > 0xFFFFFF) return std::nullopt;
    offer.queue_pairs.push_back(qp);
  }
  why.clear();
  return offer;
}

}  // namespace kinet::verbs
