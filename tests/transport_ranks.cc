#include "tests/transport_ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "comm/transports/inproc.h"
#include "comm/transports/sim.h"
#include "src/base/check.h"

namespace kinet {
namespace {

// Thrown in a rank when another one has failed: ends the thread, says nothing.
struct Stopped {};

constexpr int kIdlePolls = 64;  // then sleep a little: there are more ranks than processors
constexpr int kSliceMs = 200;   // of a sleep in poll(2): between them, has another rank failed?
constexpr auto kNap = std::chrono::microseconds(50);

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Transports whose ranks are no threads of one process have tests of their own.
const std::map<std::string, std::string>& not_as_threads() {
  static const std::map<std::string, std::string> reasons{
      {"mpi", "its ranks are processes under mpirun: see comm_mpi_test"},
  };
  return reasons;
}

}  // namespace

namespace {

std::vector<std::string> find_runnable() {
  std::vector<std::string> out;
  for (const std::string& name : TransportRegistry::instance().names()) {
    const TransportType& type = *TransportRegistry::instance().find(name);
    if (const auto it = not_as_threads().find(name); it != not_as_threads().end()) {
      fmt::print("left out: transport {}: {}\n", name, it->second);
      continue;
    }
    const TransportProbe probe = type.probe(Params(nullptr, type.fields));
    if (probe.works) {
      out.push_back(name);
    } else {
      fmt::print("left out: transport {} does not work here: {}\n", name, probe.summary);
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> runnable_transports() {
  static const std::vector<std::string> names = find_runnable();  // says its reasons once
  return names;
}

// ---- RankBoard ----------------------------------------------------------------------------------

int RankBoard::arrive(const std::string& barrier) {
  const std::lock_guard lock(mutex_);
  return ++barriers_[barrier];
}

int RankBoard::arrived(const std::string& barrier) {
  const std::lock_guard lock(mutex_);
  return barriers_[barrier];
}

void RankBoard::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  failed_ = true;
}

std::string RankBoard::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void RankBoard::show(Rank rank, const std::string& state) {
  const std::lock_guard lock(mutex_);
  states_[rank] = state;
}

// Gives the others a moment to show what they wait for, then tells the states of all.
std::string RankBoard::watchdog(Rank caller, const std::string& state) {
  wanted_ = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::lock_guard lock(mutex_);
  states_[caller] = state;
  std::string out = fmt::format("watchdog: rank {} has waited too long\n", caller);
  for (size_t r = 0; r < states_.size(); ++r) {
    out += fmt::format("  rank {}: {}\n", r, states_[r].empty() ? "does not poll" : states_[r]);
  }
  for (const auto& [name, count] : barriers_) {
    out += fmt::format("  barrier '{}': {} arrived\n", name, count);
  }
  return out;
}

// ---- TestRegion ---------------------------------------------------------------------------------

TestRegion::TestRegion(Transport& transport, size_t bytes) : memory_(bytes, "test region") {
  region_ = transport.register_memory({memory_.data(), memory_.bytes(), memory_.fd()});
}

// ---- TestRank -----------------------------------------------------------------------------------

TestRank::TestRank(const RankRun& run, Rank rank, RankBoard& board,
                   std::shared_ptr<LocalStore> store, Runtime runtime)
    : run_(run), board_(board), store_(std::move(store)), runtime_(std::move(runtime)) {
  world_.rank = rank;
  join();
  make_transport();
}

TestRank::~TestRank() {
  regions_.clear();
  transport_.reset();
  if (rendezvous_) rendezvous_->leave();
}

void TestRank::join() {
  rendezvous_ = std::make_unique<LocalRendezvous>(store_);
  JoinRequest request;
  request.rank = world_.rank;
  request.size = run_.size;
  request.node = node_id();
  request.host = host_name();
  world_ = rendezvous_->join(request, kTestDeadline);
  peers_.assign(world_.size, PeerEvents{});
}

void TestRank::make_transport() {
  const TransportType* type = TransportRegistry::instance().find(run_.transport);
  KINET_CHECK(type != nullptr, "no transport '{}'", run_.transport);
  Diagnostics diagnostics;
  params_ = std::make_unique<ParamNode>(parse_prototxt(run_.comm, "test", diagnostics));
  diagnostics.throw_if_any();
  TransportConfig config;
  config.rank = world_.rank;
  config.size = world_.size;
  config.local_rank = world_.rank;
  config.incarnation = world_.members[world_.rank].incarnation;
  config.token = world_.token;
  config.params = Params(type->fields == nullptr ? nullptr : params_.get(), type->fields);
  config.timeout = run_.timeout;
  config.runtime = runtime_;
  transport_ = type->make(config);
}

std::vector<Rank> TestRank::others() const {
  std::vector<Rank> out;
  for (Rank r = 0; r < size(); ++r) {
    if (r != rank()) out.push_back(r);
  }
  return out;
}

// The keys carry both incarnations: a successor finds nothing that was meant for the one before.
void TestRank::publish_offer(Rank peer) {
  rendezvous_->set(fmt::format("offer/{}.{}/{}.{}", rank(), world_.members[rank()].incarnation,
                               peer, world_.members[peer].incarnation),
                   transport_->offer(peer));
}

void TestRank::take_offer(Rank peer) {
  const uint32_t theirs = world_.members[peer].incarnation;
  const std::string offer = rendezvous_->get(
      fmt::format("offer/{}.{}/{}.{}", peer, theirs, rank(), world_.members[rank()].incarnation),
      kTestDeadline);
  transport_->connect(peer, theirs, offer);
}

void TestRank::start_connect(Rank peer) {
  publish_offer(peer);
  take_offer(peer);
}

void TestRank::wait_connected(Rank peer) {
  until(fmt::format("link to rank {}", peer), [&] { return peers_[peer].connected > 0; });
}

void TestRank::connect_all() {
  for (const Rank r : others()) publish_offer(r);
  for (const Rank r : others()) take_offer(r);
  for (const Rank r : others()) wait_connected(r);
}

void TestRank::die() {
  regions_.clear();
  transport_.reset();
  rendezvous_.reset();
}

void TestRank::rise() {
  join();
  make_transport();
}

void TestRank::expect_successor(Rank peer) {
  ++world_.members[peer].incarnation;
  peers_[peer] = PeerEvents{};
}

TestRegion& TestRank::region(const std::string& name, size_t bytes) {
  const auto [it, added] = regions_.try_emplace(name, *transport_, bytes);
  KINET_CHECK(added, "region '{}' is there twice", name);
  const RemoteRegion r = it->second.registered().remote();
  rendezvous_->set(fmt::format("region/{}.{}/{}", rank(), world_.members[rank()].incarnation, name),
                   fmt::format("{} {} {}", r.address, r.key, r.bytes));
  return it->second;
}

RemoteRegion TestRank::remote(Rank peer, const std::string& name) {
  const std::string text = rendezvous_->get(
      fmt::format("region/{}.{}/{}", peer, world_.members[peer].incarnation, name), kTestDeadline);
  RemoteRegion r;
  char* end = nullptr;
  r.address = std::strtoull(text.c_str(), &end, 10);
  r.key = std::strtoull(end, &end, 10);
  r.bytes = std::strtoull(end, &end, 10);
  return r;
}

void TestRank::send(Rank peer, const std::vector<std::byte>& message) {
  Post answer = Post::kBusy;
  until(fmt::format("room for a message to rank {}", peer), [&] {
    answer = transport_->send(peer, message);
    return answer != Post::kBusy;
  });
  KINET_CHECK(answer == Post::kAccepted, "rank {} is lost: {}", peer, peers_[peer].why);
}

void TestRank::put(Rank peer, const Put& put) {
  Post answer = Post::kBusy;
  until(fmt::format("room for a put to rank {}", peer), [&] {
    answer = transport_->put(peer, put);
    return answer != Post::kBusy;
  });
  KINET_CHECK(answer == Post::kAccepted, "rank {} is lost: {}", peer, peers_[peer].why);
}

int TestRank::poll() {
  const int events = transport_->poll(*this);
  if (events == 0) transport_->advance(std::numeric_limits<double>::infinity());  // virtual time
  return events;
}

std::string TestRank::state(const std::string& what) const {
  std::string out = fmt::format("waits for {};", what);
  for (const Rank r : others()) {
    const PeerEvents& p = peers_[r];
    out += fmt::format(" [{}: connected {}, {} messages, {} puts in, {} puts out, lost {}{}{}]", r,
                       p.connected, p.messages.size(), p.arrived.size(), p.completed, p.lost,
                       p.why.empty() ? "" : " ", p.why);
  }
  return out;
}

// Ends this rank when another has failed or the deadline has passed.
void TestRank::check_board(const std::string& what, double deadline) {
  if (board_.failed()) throw Stopped{};
  if (board_.wanted()) board_.show(rank(), state(what));
  if (seconds_now() > deadline) fail_runtime("{}", board_.watchdog(rank(), state(what)));
}

void TestRank::until(const std::string& what, const std::function<bool()>& done, double seconds) {
  const double deadline = seconds_now() + seconds;
  int idle = 0;
  while (!done()) {
    idle = poll() > 0 ? 0 : idle + 1;
    if (idle < kIdlePolls) continue;
    check_board(what, deadline);
    std::this_thread::sleep_for(kNap);
  }
}

void TestRank::poll_for(double seconds) {
  const double end = seconds_now() + seconds;
  until("nothing", [&] { return seconds_now() > end; });
}

void TestRank::barrier(const std::string& name, int count) {
  if (count == 0) count = size();
  board_.arrive(name);
  until(fmt::format("barrier '{}'", name), [&] { return board_.arrived(name) >= count; });
}

void TestRank::wait_idle(const std::string& name, int count) {
  const double deadline = seconds_now() + kTestDeadline;
  while (board_.arrived(name) < count) {
    check_board(fmt::format("'{}' without polling", name), deadline);
    std::this_thread::sleep_for(kNap);
  }
}

void TestRank::sleep_until_event() {
  transport_->arm();
  if (poll() > 0) return;
  const int fd = transport_->event_fd();
  if (fd < 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(transport_->max_sleep()));
  } else {
    const double deadline = seconds_now() + kTestDeadline;
    pollfd wait{fd, POLLIN, 0};
    while (::poll(&wait, 1, kSliceMs) == 0) check_board("event_fd in poll(2)", deadline);
  }
  poll();
}

PeerEvents& TestRank::event_of(Rank peer) {
  PeerEvents& p = peers_[peer];
  if (p.lost > 0) ++p.after_loss;
  return p;
}

void TestRank::on_connected(Rank peer) { ++event_of(peer).connected; }

void TestRank::on_message(Rank from, std::span<const std::byte> message) {
  PeerEvents& p = event_of(from);
  if (when_message) when_message(from, message);
  p.messages.emplace_back(message.begin(), message.end());
}

void TestRank::on_put_arrived(Rank from, uint32_t notify, uint64_t bytes) {
  PeerEvents& p = event_of(from);
  if (when_put_arrived) when_put_arrived(from, notify, bytes);
  p.arrived.emplace_back(notify, bytes);
}

void TestRank::on_puts_completed(Rank to, uint64_t count) { event_of(to).completed += count; }

void TestRank::on_peer_lost(Rank peer, const std::string& why) {
  PeerEvents& p = event_of(peer);
  ++p.lost;
  p.why = why;
}

// ---- run_ranks ----------------------------------------------------------------------------------

void run_ranks(const RankRun& run, const std::function<void(TestRank&)>& body) {
  RankBoard board(run.size);
  const auto store = std::make_shared<LocalStore>(run.size);
  // On sim the clock moves whenever any rank has nothing to do: times mean nothing here, order
  // does.
  const Runtime runtime{std::make_shared<InprocHub>(),
                        std::make_shared<SimWorld>(run.size, SimOptions{})};
  const auto one_rank = [&](Rank r) {
    try {
      TestRank rank(run, r, board, store, runtime);
      rank.barrier("all have joined");
      body(rank);
      if (::testing::Test::HasFatalFailure()) board.fail("an assertion failed, see above");
      rank.barrier("end of the test");
      for (const Rank peer : rank.others()) EXPECT_EQ(rank.from(peer).after_loss, 0) << peer;
    } catch (const Stopped&) {
    } catch (const std::exception& e) {
      board.fail(fmt::format("rank {}: {}", r, e.what()));
    }
  };
  std::vector<std::thread> threads;
  for (Rank r = 0; r < run.size; ++r) threads.emplace_back(one_rank, r);
  for (auto& thread : threads) thread.join();
  if (board.failed()) ADD_FAILURE() << run.transport << ", " << board.failure();
}

}  // namespace kinet
