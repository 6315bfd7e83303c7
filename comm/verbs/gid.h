// Addresses of a port. A RoCE port has a table of them (one per IP address and RoCE version), and
// the index of the right one differs between hosts: it is chosen by what the entry is.
// Thread safety: pure functions; no device is touched.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kinet::verbs {

using Gid = std::array<uint8_t, 16>;

enum class GidType { kInfiniband, kRoceV1, kRoceV2 };

struct GidEntry {
  int index = 0;
  Gid gid{};
  GidType type = GidType::kRoceV2;
};

std::string to_text(const Gid& gid);         // "10.77.0.1" for an IPv4 address, else as IPv6
std::string to_text(GidType type);           // "RoCE v2"
std::string to_text(const GidEntry& entry);  // "GID 1 (10.77.0.1, RoCE v2)"

bool is_zero(const Gid& gid);
bool is_link_local(const Gid& gid);  // fe80::/10
bool is_ipv4(const Gid& gid);        // ::ffff:a.b.c.d

// 0: useless; RoCE v2 before v1, IPv4 before other routable addresses before link-local ones.
int preference(const GidEntry& entry);

// The entry to use; `wanted` is an index or -1. Throws Error with the whole table when there is
// none, or none of that index.
GidEntry choose_gid(const std::vector<GidEntry>& table, int wanted, const std::string& where);

}  // namespace kinet::verbs
