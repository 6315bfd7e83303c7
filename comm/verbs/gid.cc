#include "comm/verbs/gid.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "src/base/check.h"

namespace kinet::verbs {
namespace {

std::string table_text(const std::vector<GidEntry>& table) {
  std::string out;
  for (const GidEntry& entry : table) out += "\n  " + to_text(entry);
  return out.empty() ? " (its table is empty)" : out;
}

}  // namespace

std::string to_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4(gid)) {
    inet_ntop(AF_INET, gid.data() + 12, text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
  }
  return text.data();
}

std::string to_text(GidType type) {
  switch (type) {
    case GidType::kInfiniband:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "?";
}

std::string to_text(const GidEntry& entry) {
  return fmt::format("GID {} ({}, {})", entry.index, to_text(entry.gid), to_text(entry.type));
}

bool is_zero(const Gid& gid) {
  return std::all_of(gid.begin(), gid.end(), [](uint8_t b) { return b == 0; });
}

bool is_link_local(const Gid& gid) { return gid[0] == 0xFE && (gid[1] & 0xC0) == 0x80; }

bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](uint8_t b) { return b == 0; }) &&
         gid[10] == 0xFF && gid[11] == 0xFF;
}

int preference(const GidEntry& entry) {
  if (is_zero(entry.gid)) return 0;
  const int type = entry.type == GidType::kRoceV1 ? 10 : 20;
  if (is_link_local(entry.gid)) return type + 1;
  return type + (is_ipv4(entry.gid) ? 3 : 2);
}

GidEntry choose_gid(const std::vector<GidEntry>& table, int wanted, const std::string& where) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : table) {
    if (preference(entry) == 0 || (wanted >= 0 && entry.index != wanted)) continue;
    if (best == nullptr || preference(entry) > preference(*best)) best = &entry;
  }
  if (best != nullptr) return *best;
  if (wanted >= 0) {
    fail("{} has no GID of index {}; it has:{}\nhint: leave gid_index out, or take one of these",
         where, wanted, table_text(table));
  }
  fail("{} has no address that could be used:{}\nhint: give its network interface an IP address",
       where, table_text(table));
}

}  // namespace kinet::verbs
