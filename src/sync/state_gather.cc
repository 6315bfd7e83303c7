#include "src/sync/state_gather.h"

#include <algorithm>

#include "src/base/check.h"

namespace kinet {

StateGather::StateGather(Communicator& comm, const SyncLayout& layout, Shard& shard,
                         int history_blocks, double timeout)
    : comm_(comm),
      layout_(layout),
      shard_(shard),
      history_blocks_(static_cast<size_t>(history_blocks)),
      timeout_(timeout),
      queue_(comm),
      came_(layout.servers, 0) {
  comm_.on_put(kStateKind, [this](Rank from, uint32_t, uint64_t bytes) {
    if (from < layout_.servers) came_[from] += bytes;
  });
}

StateGather::~StateGather() { comm_.on_put(kStateKind, nullptr); }

std::vector<std::span<float>> StateGather::slice_blocks() const {
  std::vector<std::span<float>> out{shard_.weights()};
  const size_t n = shard_.weights().size();
  for (size_t b = 0; b < history_blocks_; ++b) out.push_back(shard_.history().subspan(b * n, n));
  for (int w = 0; w < layout_.workers; ++w) {
    if (shard_.has_own_momentum(w)) out.push_back(shard_.own_momentum(w));
  }
  return out;
}

// In the order of slice_blocks().
std::vector<std::span<float>> StateGather::whole_blocks(std::span<float> weights,
                                                        WholeState& out) const {
  out.history.resize(history_blocks_ * layout_.floats);
  out.own_momentum.resize(layout_.workers);
  std::vector<std::span<float>> blocks{weights};
  for (size_t b = 0; b < history_blocks_; ++b) {
    blocks.push_back(std::span(out.history).subspan(b * layout_.floats, layout_.floats));
  }
  for (int w = 0; w < layout_.workers; ++w) {
    if (!shard_.has_own_momentum(w)) continue;
    out.own_momentum[w].resize(layout_.floats);
    blocks.emplace_back(out.own_momentum[w]);
  }
  return blocks;
}

Region& StateGather::room(size_t floats) {
  const size_t bytes = std::max<size_t>(1, floats) * sizeof(float);
  if (region_ == nullptr || region_->bytes() < bytes) {
    region_.reset();
    region_ = comm_.allocate(bytes, "state of the servers");
  }
  return *region_;
}

WholeState StateGather::collect(std::span<float> weights) {
  WholeState out;
  const std::vector<std::span<float>> whole = whole_blocks(weights, out), own = slice_blocks();
  for (size_t b = 0; b < own.size(); ++b) {  // this server's own weights lie in place already
    if (own[b].data() != whole[b].data()) std::copy(own[b].begin(), own[b].end(), whole[b].begin());
  }
  if (layout_.servers == 1) return out;
  request(own.size());
  const float* from = region_->as<float>().data();
  for (int s = 1; s < layout_.servers; ++s) {
    for (size_t b = 0; b < whole.size(); ++b) {
      const float* begin = from + layout_.begin(s) * whole.size() + b * slice(s);
      std::copy_n(begin, slice(s), whole[b].data() + layout_.begin(s));
    }
  }
  return out;
}

void StateGather::request(size_t blocks) {
  Region& region = room(layout_.floats * blocks);
  comm_.locked([this] { std::fill(came_.begin(), came_.end(), 0); });
  for (Rank r = 1; r < layout_.servers; ++r) {
    Command command;
    command.head.gather = 1;
    command.state = {comm_.key_for(region, r), layout_.begin(r) * blocks * sizeof(float), blocks};
    send_parts(comm_, r, kCommandKind, 0, command.pack());
  }
  Rank lost = -1;
  comm_.wait_until(
      [&] {
        for (Rank r = 1; r < layout_.servers; ++r) {
          if (came_[r] == slice(r) * blocks * sizeof(float)) continue;
          if (comm_.state(r) == PeerState::kAlive) return false;
          lost = r;
          return true;
        }
        return true;
      },
      timeout_, "the slices of the other servers");
  if (lost >= 0) fail_runtime("server {} is lost: {}", comm_.name(lost), comm_.why_lost(lost));
}

void StateGather::put_slice(const Command& command) {
  const std::vector<std::span<float>> blocks = slice_blocks();
  KINET_CHECK(blocks.size() == command.state.blocks,
              "the lead asks for {} blocks of state, this server has {}", command.state.blocks,
              blocks.size());
  const size_t n = shard_.weights().size();
  Region& region = room(n * blocks.size());
  float* to = region.as<float>().data();
  for (const std::span<float> block : blocks) to = std::copy(block.begin(), block.end(), to);
  RegionPut put;
  put.from = &region;
  put.to = command.state.region;
  put.to_offset = command.state.offset;
  put.bytes = n * blocks.size() * sizeof(float);
  put.kind = kStateKind;
  put.flush = true;
  const uint64_t ticket = queue_.post(0, put);
  comm_.wait_until([&] { return queue_.done(0, ticket) || comm_.state(0) != PeerState::kAlive; },
                   timeout_, "the state to leave for the lead");
}

}  // namespace kinet
