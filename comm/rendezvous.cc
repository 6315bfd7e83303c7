#include "comm/rendezvous.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "src/base/check.h"

namespace kinet {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number of a namespace of this process, "" where the system does not tell.
std::string namespace_number(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 ? std::to_string(status.st_ino) : std::string();
}

// Of items that only one of two ranks has.
std::string item_text(const std::pair<std::string, std::string>& item) {
  return item.first.empty() ? "nothing more" : fmt::format("{} ({})", item.first, item.second);
}

int rank_on_node(const std::vector<Member>& members, Rank rank) {
  int count = 0;
  for (Rank r = 0; r < rank; ++r) count += members[r].node == members[rank].node ? 1 : 0;
  return count;
}

}  // namespace

int World::local_rank() const { return rank_on_node(members, rank); }

int World::local_size() const {
  int count = 0;
  for (const Member& m : members) count += m.node == members[rank].node ? 1 : 0;
  return count;
}

// Abstract sockets are seen within a network namespace, files of /proc within a PID namespace.
std::string node_id() {
  return fmt::format("{}/{}/{}/{}", host_name(), first_line("/proc/sys/kernel/random/boot_id"),
                     namespace_number("/proc/self/ns/net"), namespace_number("/proc/self/ns/pid"));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

void fail_late(const std::string& key, double timeout, Rank owner) {
  if (owner < 0) fail_runtime("nobody set '{}' within {:.3g} s", key, timeout);
  fail_runtime(
      "rank {} did not answer within {:.3g} s (it has not set '{}'): stopped, or very slow", owner,
      timeout, key);
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail_runtime("the system gives no random numbers for the token of the run");
  }
  std::string out;
  for (const unsigned char b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

std::string first_difference(const std::vector<JoinRequest>& requests) {
  using Item = std::pair<std::string, std::string>;
  const auto item_of = [&](size_t rank, size_t i) {
    const auto& items = requests[rank].fingerprint;
    return i < items.size() ? items[i] : Item{};
  };
  size_t longest = 0;
  for (const JoinRequest& r : requests) longest = std::max(longest, r.fingerprint.size());
  for (size_t i = 0; i < longest; ++i) {
    const Item first = item_of(0, i);
    for (size_t r = 1; r < requests.size(); ++r) {
      const Item other = item_of(r, i);
      if (other == first) continue;
      if (other.first == first.first) {
        return fmt::format("{}: rank {} has {}, rank 0 has {}", first.first, r, other.second,
                           first.second);
      }
      return fmt::format("rank {} has {}, rank 0 has {}", r, item_text(other), item_text(first));
    }
  }
  return "";
}

}  // namespace kinet
