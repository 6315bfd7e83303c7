// What one rank tells another so that their queue pairs can meet; a line of text, which travels
// through the rendezvous.
// Thread safety: pure functions; no device is touched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/verbs/attributes.h"

namespace kinet::verbs {

struct Offer {
  std::string host, device;
  int port = 1;
  bool ethernet = true;
  Gid gid{};
  int lid = 0;
  int mtu = 1024;
  uint32_t max_message = 0;  // bytes of one work request
  int credits = 0;           // receives that the reader of the offer may consume
  std::vector<QueuePairAddress> queue_pairs;
};

std::string encode(const Offer& offer);
// Nothing when the text is no offer; `why` then says what is wrong with it.
std::optional<Offer> decode(const std::string& text, std::string& why);

}  // namespace kinet::verbs
