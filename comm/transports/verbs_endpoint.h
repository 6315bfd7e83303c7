// What a rank has on its RDMA device, shared by the links to all peers.
// Thread safety: one thread.
#pragma once

#include <memory>

#include "comm/transport.h"
#include "comm/verbs/async_events.h"
#include "comm/verbs/completion_queue.h"
#include "comm/verbs/memory_key.h"
#include "comm/verbs/receive_queue.h"

namespace kinet {

// The hello of a link takes one receive, and one is kept aside for handing credits back.
inline constexpr int kReservedReceives = 1;
// Work requests of a window that are kept for handing credits back and for the goodbye.
inline constexpr int kReservedSends = 2;
// Messages travel with their kind in the immediate data, so a slot is as large as a message.
inline constexpr size_t kSlotBytes = kMaxMessage;

struct VerbsEndpoint {
  explicit VerbsEndpoint(const TransportConfig& config);

  int peers() const { return size > 1 ? size - 1 : 1; }
  verbs::GidEntry choose_gid() const;

  const Rank rank;
  const int size;
  const uint32_t incarnation;
  const std::string token;
  const verbs::Settings settings;
  const double timeout;
  verbs::Port port;
  verbs::Device device;
  verbs::CompletionQueue completions;
  std::unique_ptr<verbs::ReceiveQueue> receives;  // shared by all peers; null: each lane has one
  verbs::AsyncEvents news;
  TransportCounters counters;
};

class VerbsRegion : public MemoryRegion {
 public:
  VerbsRegion(VerbsEndpoint& endpoint, const MemoryBlock& block)
      : MemoryRegion(block),
        key_(endpoint.device, block.data, block.bytes, endpoint.settings.relaxed_ordering) {}
  RemoteRegion remote() const override {
    return {reinterpret_cast<uintptr_t>(data()), key_.remote(), bytes()};
  }
  uint32_t local_key() const { return key_.local(); }

 private:
  verbs::MemoryKey key_;
};

}  // namespace kinet
