#include "src/sync/server_rank.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace kinet {

size_t SyncLayout::begin(int server) const {
  const size_t lines = padded(floats) / 16;
  return lines * static_cast<size_t>(server) / static_cast<size_t>(servers) * 16;
}

void SyncLayout::cut_at(std::span<const ParameterSegment> parameters) {
  for (const ParameterSegment& p : parameters) cuts.push_back(p.offset);
  std::sort(cuts.begin(), cuts.end());
}

std::vector<std::pair<size_t, size_t>> SyncLayout::pieces(size_t from, size_t to) const {
  std::vector<std::pair<size_t, size_t>> out;
  for (const size_t cut : cuts) {
    if (cut <= from || cut >= to) continue;
    out.emplace_back(from, cut);
    from = cut;
  }
  if (from < to) out.emplace_back(from, to);
  return out;
}

void SyncLayout::check() const {
  const size_t most = padded(floats) / 16;
  KINET_CHECK(static_cast<size_t>(servers) <= most,
              "{} servers are too many for {} parameters\nhint: at most {}, one for every 16 "
              "parameters",
              servers, floats, most);
}

size_t SyncLayout::slice_bytes(int server) const {
  return (end(server) - begin(server) + (server == 0 ? buffers : 0)) * sizeof(float);
}

void merge_buffers(const std::vector<std::pair<double, const float*>>& members,
                   std::span<float> buffers) {
  if (members.empty()) return;
  double total = 0;
  bool equal = true;
  for (const auto& [weight, from] : members) {
    total += weight;
    equal &= weight == members.front().first;
  }
  const double part = total > 1 - 1e-6 ? 1 : total;
  const auto count = static_cast<float>(members.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    float sum = 0;
    for (const auto& [weight, from] : members) {
      sum += equal ? from[i] : static_cast<float>(weight / total) * from[i];
    }
    const float mean = equal ? sum / count : sum;
    buffers[i] = part == 1
                     ? mean
                     : static_cast<float>(1 - part) * buffers[i] + static_cast<float>(part) * mean;
  }
}

ServerRank::ServerRank(Communicator& comm, const SyncLayout& layout, Shard& shard,
                       std::span<float> weights, std::span<float> buffers, int slots,
                       double timeout, std::unique_ptr<PushCodec> codec)
    : comm_(comm),
      layout_(layout),
      shard_(shard),
      weights_(weights),
      buffers_(buffers),
      slots_(slots),
      timeout_(timeout),
      codec_(std::move(codec)),
      slice_(layout.end(comm.rank()) - layout.begin(comm.rank())),
      pushed_(SyncLayout::padded(codec_ ? codec_->most_bytes() / sizeof(float) : slice_)),
      slot_floats_(pushed_ + SyncLayout::padded(buffers.size())),
      copy_floats_(SyncLayout::padded(slice_) + SyncLayout::padded(buffers.size())),
      queue_(comm),
      workers_(layout.workers),
      norms_(layout.servers) {
  for (WorkerPlace& w : workers_) w.slots = new_slots();
  comm_.on_message(kHelloKind, [this](Rank from, std::span<const std::byte> payload) {
    greet(from, read_message<HelloMessage>(payload));
  });
  comm_.on_put(kPieceKind,
               [this](Rank from, uint32_t tag, uint64_t bytes) { arrived(from, tag, bytes); });
  comm_.on_message(kCommandKind, [this](Rank, std::span<const std::byte> payload) {
    if (const auto whole = command_parts_.add(payload)) {
      commands_.push_back(Command::unpack(*whole));
    }
  });
  comm_.on_message(kNormsKind, [this](Rank from, std::span<const std::byte> payload) {
    norms_[from].push_back(read_message<NormsMessage>(payload));
  });
}

ServerRank::~ServerRank() {
  for (const uint8_t kind : {kHelloKind, kCommandKind, kNormsKind}) comm_.on_message(kind, nullptr);
  comm_.on_put(kPieceKind, nullptr);
}

std::unique_ptr<Region> ServerRank::new_slots() {
  return comm_.allocate(slot_floats_ * static_cast<size_t>(slots_) * sizeof(float),
                        "gradients of a worker");
}

void ServerRank::on_complete(std::function<void(int, uint32_t)> handler) {
  comm_.locked([&] { complete_ = std::move(handler); });
}

void ServerRank::on_hello(std::function<void(int)> handler) {
  comm_.locked([&] {
    hello_ = std::move(handler);
    if (!hello_) return;
    for (int w = 0; w < layout_.workers; ++w) {
      if (workers_[w].life > 0) hello_(w);  // it was earlier
    }
  });
}

// A successor finds the place of the one before it, with what that one has pushed whole; but that
// one may still be there, stopped, and writing when it wakes up.
void ServerRank::greet(Rank from, const HelloMessage& hello) {
  if (from < layout_.servers) return;
  const int worker = layout_.worker_of(from);
  WorkerPlace& place = workers_[worker];
  forget(worker);
  place.weights = hello.memory;
  if (++place.life > 1) {
    retired_.push_back(std::exchange(place.slots, new_slots()));
    const std::span<float> old = retired_.back()->as<float>();
    std::copy(old.begin(), old.end(), place.slots->as<float>().begin());
  }
  place.lend_weights = hello.lend_weights != 0 && layout_.servers == 1;
  place.seq_tag = kNoTag;
  place.bytes = 0;
  SlotsMessage reply;
  reply.region = comm_.key_for(*place.slots, from);
  reply.begin = layout_.begin(comm_.rank());
  reply.end = layout_.end(comm_.rank());
  reply.slot_floats = slot_floats_;
  reply.lend_slots = hello.lend_slots != 0 && layout_.servers == 1 && codec_ == nullptr ? 1 : 0;
  reply.lend_weights = place.lend_weights ? 1 : 0;
  comm_.send(from, kSlotsKind, bytes_of(reply));
  if (hello_) hello_(worker);
}

void ServerRank::forget(int worker) {
  queue_.forget(layout_.rank_of(worker));
  for (const auto& p : publications_) {
    std::erase_if(p->loans, [&](const auto& loan) { return loan.first == worker; });
  }
}

RemoteRegion ServerRank::lent(int worker, Loan loan) {
  RemoteRegion out;
  comm_.locked([&] {
    for (const auto& p : publications_) {
      const auto it = std::find(p->loans.begin(), p->loans.end(), std::pair(worker, loan));
      if (it != p->loans.end()) out = comm_.key_for(*p->region, layout_.rank_of(worker));
    }
  });
  return out;
}

void ServerRank::take_back(int worker, Loan loan) {
  comm_.locked([&] {
    for (const auto& p : publications_) std::erase(p->loans, std::pair(worker, loan));
  });
}

namespace {

// Of two numbers in tags, which wrap around.
bool newer(uint32_t tag, uint32_t than) {
  return tag != than && ((tag - than) & kMaxTag) <= kMaxTag / 2;
}

}  // namespace

// One gradient of a worker is on its way at a time: a new number begins a new one, and what came of
// the one before it is forgotten (it was given up), also what comes of it later by a slower way.
void ServerRank::arrived(Rank from, uint32_t tag, uint64_t bytes) {
  if (from < layout_.servers) return;
  const int worker = layout_.worker_of(from);
  WorkerPlace& place = workers_[worker];
  if (place.seq_tag == kNoTag || newer(tag, place.seq_tag)) {
    place.seq_tag = tag;
    place.bytes = 0;
  }
  if (place.seq_tag != tag) return;
  place.bytes += bytes;
  if (place.bytes == due_bytes(tag) && complete_) complete_(worker, tag);
}

uint64_t ServerRank::due_bytes(uint32_t tag) const {
  const size_t slice = codec_ ? codec_->encoded_bytes(tag) : slice_ * sizeof(float);
  return slice + (lead() ? layout_.buffers * sizeof(float) : 0);
}

float* ServerRank::slot(int worker, int index) const {
  float* first = nullptr;
  comm_.locked([&] { first = workers_[worker].slots->as<float>().data(); });
  return first + static_cast<size_t>(index) * slot_floats_;
}

float* ServerRank::gradient(const CommandMember& member, size_t place) {
  float* in_slot = slot(member.plan.worker, member.slot);
  if (codec_ == nullptr) return in_slot;
  if (decoded_.size() <= place) decoded_.resize(place + 1);
  std::vector<float>& out = decoded_[place];
  out.resize(slice_);
  const std::span<const float> bytes(in_slot,
                                     codec_->encoded_bytes(member.plan.seq) / sizeof(float));
  codec_->decode(member.plan.seq, std::as_bytes(bytes), out);
  return out.data();
}

Command ServerRank::take_command() {
  Command out;
  comm_.locked([&] {
    out = std::move(commands_.front());
    commands_.pop_front();
  });
  return out;
}

ServerRank::Result ServerRank::execute(const Command& command) {
  std::vector<std::unique_ptr<Region>> unused;  // no pointer into them is held here
  comm_.locked([&] { unused.swap(retired_); });
  unused.clear();
  Result result;
  Publication* answer = command.answers.empty() ? nullptr : &free_publication();
  std::span<float> published;
  if (answer != nullptr) published = {answer->floats(), slice_};
  for (const int worker : command.resets) shard_.forget_momentum(worker);
  if (command.head.applies != 0) {
    std::vector<Shard::Member> members;
    bool fresh = false;
    for (const CommandMember& m : command.members) {
      members.push_back({m.plan, gradient(m, members.size()), m.norm_squared});
      fresh |= m.plan.use == Use::kFresh;
    }
    const bool measure = command.head.measure != 0, product = command.head.product != 0;
    const Shard::Mean mean = shard_.sum(members, measure, product);
    const auto all = fresh || measure || product
                         ? total(command.head.round, {mean.squared, mean.product, 0})
                         : std::array<double, 3>{};
    result.mean_known = mean.known;
    result.mean_squared = all[0];
    result.product = all[1];
    shard_.apply(members, command.head.step, command.head.learning_rate, result.mean_squared,
                 published);
    if (!buffers_.empty()) merge(command);
  } else if (answer != nullptr) {
    shard_.publish(published);
  }
  send_weights(command, answer);  // before anything that workers need not wait for
  if (command.head.measure != 0) {
    const Shard::Norms part = shard_.measure();
    const auto all = total(command.head.round, {part.momentum, part.moved, part.weights});
    result.norms = {all[0], all[1], all[2]};
  }
  return result;
}

// Squares of norms over all slices, summed in the order of the servers.
std::array<double, 3> ServerRank::total(int64_t round, const std::array<double, 3>& part) {
  if (layout_.servers == 1) return part;
  const Rank self = comm_.rank();
  for (Rank r = 0; r < layout_.servers; ++r) {
    if (r != self) comm_.send(r, kNormsKind, bytes_of(NormsMessage{round, part}));
  }
  comm_.wait_until(
      [&] {
        for (Rank r = 0; r < layout_.servers; ++r) {
          if (r == self || !norms_[r].empty()) continue;
          if (comm_.state(r) != PeerState::kAlive) return true;
          return false;
        }
        return true;
      },
      timeout_, fmt::format("the other servers in round {}", round));
  std::array<double, 3> total{};
  comm_.locked([&] {
    for (Rank r = 0; r < layout_.servers; ++r) {
      NormsMessage m{round, part};
      if (r != self) {
        if (norms_[r].empty()) {
          fail_runtime("server {} is lost: {}", comm_.name(r), comm_.why_lost(r));
        }
        m = norms_[r].front();
        norms_[r].pop_front();
      }
      KINET_CHECK(m.round == round, "server {} is in round {}, this one in {}", r, m.round, round);
      for (size_t i = 0; i < total.size(); ++i) total[i] += m.squares[i];
    }
  });
  return total;
}

void ServerRank::merge(const Command& command) {
  std::vector<std::pair<double, const float*>> members;
  for (const CommandMember& m : command.members) {
    if (m.plan.use == Use::kDrop || m.plan.use == Use::kMomentum) continue;
    members.emplace_back(m.plan.weight, slot(m.plan.worker, m.slot) + pushed_);
  }
  merge_buffers(members, buffers_);
}

ServerRank::Publication& ServerRank::free_publication() {
  for (const auto& p : publications_) {
    bool free = std::all_of(p->puts.begin(), p->puts.end(),
                            [&](const auto& put) { return queue_.done(put.first, put.second); });
    comm_.locked([&] { free &= p->loans.empty(); });
    if (!free) continue;
    p->puts.clear();
    return *p;
  }
  auto made = std::make_unique<Publication>();
  made->region = comm_.allocate(copy_floats_ * sizeof(float), "weights to send");
  Publication& out = *made;
  comm_.locked([&] { publications_.push_back(std::move(made)); });
  return out;
}

bool ServerRank::idle() const {
  return std::all_of(publications_.begin(), publications_.end(), [&](const auto& p) {
    return std::all_of(p->puts.begin(), p->puts.end(),
                       [&](const auto& put) { return queue_.done(put.first, put.second); });
  });
}

// `answer` holds what the shard has published, or is null.
void ServerRank::send_weights(const Command& command, Publication* answer) {
  constexpr int kTestCopy = 2;
  const auto buffers_to = [&](float* place) {
    std::copy(buffers_.begin(), buffers_.end(), place + SyncLayout::padded(slice_));
  };
  if (answer != nullptr) {
    buffers_to(answer->floats());
    for (const CommandAnswer& a : command.answers) {
      send_copy(*answer, a.to, a.buffer, Loan::kAnswer, command.head.round);
      shard_.sent(a.to.worker, {answer->floats(), slice_});
    }
  }
  if (command.tests.empty()) return;
  if (answer == nullptr || !shard_.publishes_weights()) {  // tested are the weights themselves
    answer = &free_publication();
    std::copy(weights_.begin(), weights_.end(), answer->floats());
    buffers_to(answer->floats());
  }
  for (const CommandPeer& to : command.tests) {
    send_copy(*answer, to, kTestCopy, Loan::kTest, command.head.round);
  }
}

// Nothing is lent or put to the successor of the worker that was meant.
void ServerRank::send_copy(Publication& from, const CommandPeer& to, int buffer, Loan loan,
                           int64_t version) {
  const Rank peer = layout_.rank_of(to.worker);
  RemoteRegion weights;
  bool meant = false, lend = false;
  comm_.locked([&] {
    const WorkerPlace& place = workers_[to.worker];
    weights = place.weights;
    meant = place.life == to.life;
    lend = meant && place.lend_weights && comm_.state(peer) == PeerState::kAlive;
    if (lend) from.loans.emplace_back(to.worker, loan);
  });
  if (!meant || lend) return;
  const size_t copy = static_cast<size_t>(1 + buffer) * layout_.copy_floats();
  const size_t begin = layout_.begin(comm_.rank()), end = begin + slice_;
  RegionPut put;
  put.from = from.region.get();
  put.to = weights;
  put.kind = loan == Loan::kAnswer ? kWeightsKind : kTestWeightsKind;
  put.tag = put_tag(version);
  uint64_t ticket = 0;
  for (const auto& [first, last] : layout_.pieces(begin, end)) {
    put.from_offset = (first - begin) * sizeof(float);
    put.to_offset = (copy + first) * sizeof(float);
    put.bytes = (last - first) * sizeof(float);
    put.flush = last == end && buffers_.empty();
    ticket = queue_.post(peer, put);
  }
  if (!buffers_.empty()) {
    put.from_offset = SyncLayout::padded(slice_) * sizeof(float);
    put.to_offset = (copy + SyncLayout::padded(layout_.floats)) * sizeof(float);
    put.bytes = buffers_.size() * sizeof(float);
    put.flush = true;
    ticket = queue_.post(peer, put);
  }
  from.puts.emplace_back(peer, ticket);
}

}  // namespace kinet
