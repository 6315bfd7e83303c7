#include "comm/rendezvous_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kinet {
namespace {

constexpr size_t kMaxKey = 4096;                      // bytes
constexpr size_t kMaxValueBytes = size_t{256} << 20;  // of all keys and values together
constexpr size_t kMaxQuestions = 65536;               // that wait for their key
constexpr double kMaxWait = 7 * 24 * 3600;            // seconds

}  // namespace

RendezvousBook::RendezvousBook(int size, bool replace)
    : size_(size), replace_(replace), slots_(size) {}

std::string RendezvousBook::receive(Connection from, const RendezvousFrame& frame, double now) {
  switch (frame.kind) {
    case RendezvousKind::kJoin:
      return join(from, frame, now);
    case RendezvousKind::kSet:
      return set(from, frame);
    case RendezvousKind::kGet:
      return get(from, frame);
    case RendezvousKind::kCancel:
      return cancel(from, frame);
    case RendezvousKind::kReportLost:
      return report_lost(from, frame);
    case RendezvousKind::kLeave:
      clients_[from].left = true;
      send(from, FrameWriter().frame(RendezvousKind::kLeft));
      return "";
    default:
      return fmt::format("a frame of kind {}", static_cast<int>(frame.kind));
  }
}

// ---- joining ------------------------------------------------------------------------------------

std::string RendezvousBook::join(Connection from, const RendezvousFrame& frame, double now) {
  std::optional<JoinFrame> join = read_join(frame);
  if (!join) return "a join that is damaged";
  if (clients_[from].rank >= 0) return "a second join on one connection";
  if (phase_ == Phase::kFailed) {
    fail_join(from, failure_kind_, failure_);
    return "";
  }
  if (join->request.rank < 0) join->request.rank = free_rank();
  const std::string problem = join_problem(join->request);
  if (problem.empty()) {
    place(from, *join, now);
    if (all_there()) complete();
  } else {
    if (phase_ == Phase::kGathering) fail_all(Error::Kind::kUser, problem);
    fail_join(from, Error::Kind::kUser, problem);
  }
  return "";
}

Rank RendezvousBook::free_rank() const {
  const auto free = std::find_if(slots_.begin(), slots_.end(),
                                 [](const Slot& slot) { return !slot.request.has_value(); });
  return static_cast<Rank>(free - slots_.begin());
}

std::string RendezvousBook::join_problem(const JoinRequest& request) const {
  const std::string who = fmt::format("process {} on {}", request.process, request.host);
  if (request.size != size_) {
    return fmt::format("size: {} was told that there are {} ranks, the run has {}", who,
                       request.size, size_);
  }
  if (request.rank >= size_) {
    return request.rank == size_ && free_rank() == size_
               ? fmt::format("all {} ranks of the run are taken; {} is one too many", size_, who)
               : fmt::format("{} is rank {} of a run of {} ranks (0 to {})", who, request.rank,
                             size_, size_ - 1);
  }
  if (slots_[request.rank].request) {
    return fmt::format("rank {} is there twice: {}, and {}", request.rank,
                       member_text(request.rank), who);
  }
  if (phase_ == Phase::kGathering) return "";  // compared when all are there
  const std::string difference = difference_of(request);
  return difference.empty() ? "" : "the ranks differ: " + difference;
}

std::string RendezvousBook::difference_of(const JoinRequest& newcomer) const {
  std::vector<JoinRequest> requests(std::max(newcomer.rank + 1, 2), agreed_);
  requests[newcomer.rank] = newcomer;
  return first_difference(requests);
}

void RendezvousBook::place(Connection from, const JoinFrame& join, double now) {
  const JoinRequest& request = join.request;
  Slot& slot = slots_[request.rank];
  slot.request = request;
  if (phase_ == Phase::kRunning) slot.request->fingerprint.clear();  // has been compared
  slot.connection = from;
  Client& client = clients_[from];
  client.rank = request.rank;
  client.incarnation = slot.incarnation;
  client.timeout = std::clamp(join.timeout, 0.0, kMaxWait);
  client.deadline = now + client.timeout;
  if (phase_ == Phase::kRunning) {
    tell_members(joined_frame(request.rank,
                              {request.node, request.host, request.process, slot.incarnation}));
  }
}

// All are there: compares them, and hands out the World to those that wait for it.
void RendezvousBook::complete() {
  if (phase_ == Phase::kGathering) {
    std::vector<JoinRequest> requests;
    for (const Slot& slot : slots_) requests.push_back(*slot.request);
    const std::string difference = first_difference(requests);
    if (!difference.empty()) return fail_all(Error::Kind::kUser, "the ranks differ: " + difference);
    agreed_.fingerprint = requests.front().fingerprint;
    for (Slot& slot : slots_) slot.request->fingerprint.clear();  // may be the text of large nets
    phase_ = Phase::kRunning;
  }
  World world;
  for (const Slot& slot : slots_) {
    const JoinRequest& r = *slot.request;
    world.members.push_back({r.node, r.host, r.process, slot.incarnation});
  }
  for (auto& [connection, client] : clients_) {
    if (!waits(client) || !is_current(client)) continue;
    client.joined = true;
    world.rank = client.rank;
    send(connection, world_frame(world));
  }
}

bool RendezvousBook::all_there() const { return free_rank() == size_; }

std::string RendezvousBook::missing_text() const {
  std::string text;
  for (Rank r = 0; r < size_; ++r) {
    if (slots_[r].request) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", r);
    if (!slots_[r].lost_why.empty()) text += fmt::format(" (was there: {})", slots_[r].lost_why);
  }
  return text;
}

void RendezvousBook::fail_join(Connection to, Error::Kind kind, const std::string& text) {
  send(to, FrameWriter()
               .number(kind == Error::Kind::kUser ? 0 : 1)
               .text(text)
               .frame(RendezvousKind::kFailed));
}

void RendezvousBook::fail_all(Error::Kind kind, const std::string& text) {
  phase_ = Phase::kFailed;
  failure_kind_ = kind;
  failure_ = text;
  for (const auto& [connection, client] : clients_) {
    if (waits(client) && is_current(client)) fail_join(connection, kind, text);
  }
}

double RendezvousBook::next_deadline() const {
  double first = std::numeric_limits<double>::infinity();
  if (phase_ == Phase::kFailed) return first;
  for (const auto& [connection, client] : clients_) {
    if (waits(client) && is_current(client)) first = std::min(first, client.deadline);
  }
  return first;
}

void RendezvousBook::tick(double now) {
  if (phase_ == Phase::kFailed) return;
  for (const auto& [connection, client] : clients_) {
    if (!waits(client) || !is_current(client) || client.deadline > now) continue;
    const std::string text =
        fmt::format("ranks that did not come within {:.3g} s: {}", client.timeout, missing_text());
    if (phase_ == Phase::kGathering) return fail_all(Error::Kind::kRuntime, text);
    declare_lost(client.rank, text);
  }
}

// ---- keys ---------------------------------------------------------------------------------------

std::string RendezvousBook::set(Connection from, const RendezvousFrame& frame) {
  FrameReader in(frame.body);
  const std::string key = in.text();
  const std::string value = in.text();
  if (!in.complete() || key.size() > kMaxKey) return "a set that is damaged";
  const Client& client = clients_[from];
  if (client.rank >= 0 && !is_current(client)) return "";  // lost: changes nothing any more
  const auto [entry, added] = values_.try_emplace(key);
  const size_t grown = value_bytes_ + value.size() + (added ? key.size() : 0);
  if (grown - entry->second.size() > kMaxValueBytes) {
    if (added) values_.erase(entry);
    return fmt::format("more than {} bytes of keys and values", kMaxValueBytes);
  }
  value_bytes_ = grown - entry->second.size();
  entry->second = value;
  for (const Question& q : questions_) {
    if (q.key != key) continue;
    send(q.from, FrameWriter().number(q.number).text(value).frame(RendezvousKind::kValue));
  }
  std::erase_if(questions_, [&](const Question& q) { return q.key == key; });
  return "";
}

std::string RendezvousBook::get(Connection from, const RendezvousFrame& frame) {
  FrameReader in(frame.body);
  const uint32_t number = in.number();
  const std::string key = in.text();
  if (!in.complete() || key.size() > kMaxKey) return "a get that is damaged";
  const auto found = values_.find(key);
  if (found != values_.end()) {
    send(from, FrameWriter().number(number).text(found->second).frame(RendezvousKind::kValue));
    return "";
  }
  if (questions_.size() >= kMaxQuestions) return "too many questions";
  questions_.push_back({from, number, key});
  return "";
}

std::string RendezvousBook::cancel(Connection from, const RendezvousFrame& frame) {
  FrameReader in(frame.body);
  const uint32_t number = in.number();
  if (!in.complete()) return "a cancel that is damaged";
  std::erase_if(questions_,
                [&](const Question& q) { return q.from == from && q.number == number; });
  return "";
}

// ---- losses -------------------------------------------------------------------------------------

bool RendezvousBook::is_current(const Client& client) const {
  return client.rank >= 0 && slots_[client.rank].incarnation == client.incarnation;
}

std::string RendezvousBook::report_lost(Connection from, const RendezvousFrame& frame) {
  const std::optional<MemberNews> news = read_news(frame);
  if (!news || news->rank < 0 || news->rank >= size_) return "a report that is damaged";
  const Client& client = clients_[from];
  const bool counts = client.joined && is_current(client);  // one that is lost accuses nobody
  if (counts && !has_left(news->rank) &&
      slots_[news->rank].incarnation == news->member.incarnation) {
    declare_lost(news->rank, news->why);
  }
  return "";
}

void RendezvousBook::closed(Connection connection, const std::string& why) {
  std::erase_if(questions_, [&](const Question& q) { return q.from == connection; });
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return;
  const Client client = found->second;
  clients_.erase(found);
  if (is_current(client) && slots_[client.rank].connection == connection && !client.left) {
    lose(client.rank, why, Error::Kind::kRuntime);
  }
}

void RendezvousBook::process_ended(Rank rank, int64_t process, const std::string& why,
                                   Error::Kind kind) {
  const Slot& slot = slots_[rank];
  if (slot.request) {
    if (slot.request->process == process && !has_left(rank)) lose(rank, why, kind);
  } else if (phase_ == Phase::kGathering && !replace_) {
    fail_all(kind, fmt::format("rank {} (process {}) is gone before all ranks were there: {}", rank,
                               process, why));
  }
}

// A connection that goes without having left is a loss, so who is there without one has left.
bool RendezvousBook::has_left(Rank rank) const {
  if (!slots_[rank].request) return false;
  const auto client = clients_.find(slots_[rank].connection);
  return client == clients_.end() || client->second.left;
}

// A process that was there is gone.
void RendezvousBook::lose(Rank rank, const std::string& why, Error::Kind kind) {
  if (phase_ == Phase::kGathering && !replace_) {
    return fail_all(kind, fmt::format("rank {} ({}) is gone before all ranks were there: {}", rank,
                                      member_text(rank), why));
  }
  declare_lost(rank, why);
}

// The first report counts: the rank is free for a successor with the next incarnation.
void RendezvousBook::declare_lost(Rank rank, const std::string& why) {
  Slot& slot = slots_[rank];
  const uint32_t incarnation = slot.incarnation++;
  slot.request.reset();
  slot.connection = 0;
  slot.lost_why = why;
  for (const auto& [connection, client] : clients_) {  // a successor that still waits
    if (waits(client) && client.rank == rank && client.incarnation == incarnation) {
      fail_join(connection, Error::Kind::kRuntime, why);
    }
  }
  tell_members(lost_frame(RendezvousKind::kLost, rank, incarnation, why));
}

void RendezvousBook::tell_members(const std::string& frame) {
  for (const auto& [connection, client] : clients_) {
    if (client.joined) send(connection, frame);
  }
}

// ---- for people ---------------------------------------------------------------------------------

std::string RendezvousBook::member_text(Rank rank) const {
  const auto& request = slots_[rank].request;
  return request ? fmt::format("process {} on {}", request->process, request->host) : "nobody";
}

std::string RendezvousBook::name_of(Connection connection) const {
  const auto found = clients_.find(connection);
  if (found == clients_.end() || found->second.rank < 0) return "";
  const Client& client = found->second;
  if (!is_current(client)) return fmt::format("a former rank {}", client.rank);
  return fmt::format("rank {} ({})", client.rank, member_text(client.rank));
}

bool RendezvousBook::all_left() const {
  return std::none_of(clients_.begin(), clients_.end(), [this](const auto& entry) {
    return is_current(entry.second) && !entry.second.left;
  });
}

}  // namespace kinet
