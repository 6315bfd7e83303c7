#include "comm/transports/tcp_greeter.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "comm/transports/tcp_address.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr size_t kMaxGreetings = 1024;  // at a time; what comes beyond them is closed at once

}  // namespace

TcpGreeter::TcpGreeter(const TransportConfig& config, const TcpOptions& options, int epoll,
                       uint64_t tag)
    : rank_(config.rank),
      incarnation_(config.incarnation),
      key_(sip_key_of(config.token)),
      timeout_(config.timeout),
      options_(options),
      epoll_(epoll),
      tag_(tag) {
  const TcpAddresses mine = choose_addresses(options, config.one_node);
  listener_ = listen_on({mine.listen, 0});
  set_buffers(listener_.get(), options);  // inherited by what is accepted
  const int port = local_address(listener_.get()).port;
  for (const std::string& host : mine.reachable) reachable_at_.push_back({host, port});
  watch(0, listener_.get(), EPOLLIN);
}

void TcpGreeter::watch(uint32_t number, int fd, uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_ | number;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0) return;
  KINET_CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "tcp: epoll_ctl: {}",
              system_error(errno));
}

// ---- this rank dials ----------------------------------------------------------------------------

void TcpGreeter::dial(Rank peer, uint32_t incarnation, const std::vector<HostPort>& addresses) {
  for (int i = 0; i < options_.streams; ++i) {
    const uint32_t number = ++last_number_;
    Greeting& g = greetings_[number];
    g.dialled = true;
    g.step = Step::kDialling;
    g.hello.stream = static_cast<uint16_t>(i);
    g.hello.streams = static_cast<uint16_t>(options_.streams);
    g.hello.from_rank = static_cast<uint32_t>(rank_);
    g.hello.from_incarnation = incarnation_;
    g.hello.to_rank = static_cast<uint32_t>(peer);
    g.hello.to_incarnation = incarnation;
    g.hello.nonce = random_nonce();
    g.addresses = addresses;
    try_address(number, g);
  }
}

// Starts on the first address; each gets its share of the time.
void TcpGreeter::try_address(uint32_t number, Greeting& g) {
  std::string why = "it has no address that can be reached";
  if (!g.addresses.empty()) g.fd = start_dialling(g.addresses[0], options_, why);
  if (!g.fd) {
    give_up(number, why);
    return;
  }
  g.deadline = steady_seconds() + timeout_ / static_cast<double>(g.addresses.size());
  watch(number, g.fd.get(), EPOLLOUT);
}

void TcpGreeter::finish_dial(uint32_t number, Greeting& g) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(g.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0 && is_self_connected(g.fd.get())) error = ECONNREFUSED;
  if (error == 0) {
    g.step = Step::kChallengeDue;
    g.deadline = steady_seconds() + timeout_;
    watch(number, g.fd.get(), EPOLLIN);
    return;
  }
  give_up(number,
          fmt::format("no connection to {}: {}", g.addresses[0].text(), system_error(error)));
}

void TcpGreeter::answer_challenge(uint32_t number, Greeting& g) {
  const std::span<const std::byte> bytes(g.read);
  if (!decode_challenge(bytes.first<kChallengeBytes>(), g.challenge)) {
    give_up(number,
            fmt::format("{} is no rank of kinet, or of another version", g.addresses[0].text()));
    return;
  }
  g.read.clear();
  const auto hello = encode_hello(g.hello, g.challenge, key_);
  if (::send(g.fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != ssize_t{hello.size()}) {
    give_up(number, "its socket was closed in the greeting");
    return;
  }
  g.step = Step::kWelcomeDue;
}

// ---- the peer dials -----------------------------------------------------------------------------

void TcpGreeter::accept_all() {
  while (true) {
    FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    if (greetings_.size() >= kMaxGreetings) continue;
    const uint32_t number = ++last_number_;
    Greeting g;
    g.fd = std::move(fd);
    g.challenge = random_nonce();
    g.deadline = steady_seconds() + timeout_;
    const auto challenge = encode_challenge(g.challenge);
    if (::send(g.fd.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL) < 0) continue;
    watch(number, g.fd.get(), EPOLLIN);
    greetings_.emplace(number, std::move(g));
  }
}

void TcpGreeter::read_hello(uint32_t number, Greeting& g) {
  const std::span<const std::byte> bytes(g.read);
  const bool ours = decode_hello(bytes.first<kHelloBytes>(), g.challenge, key_, g.hello) &&
                    g.hello.to_rank == static_cast<uint32_t>(rank_) &&
                    g.hello.to_incarnation == incarnation_;
  if (!ours) {
    give_up(number, "");
    return;
  }
  g.step = Step::kHeld;
  match(number, g);
}

// Welcomes a held greeting when it is the one that is expected; an older one is closed.
void TcpGreeter::match(uint32_t number, Greeting& g) {
  const auto due = expected_.find(static_cast<Rank>(g.hello.from_rank));
  if (due == expected_.end() || due->second < g.hello.from_incarnation) return;
  if (due->second > g.hello.from_incarnation) {
    give_up(number, "");
    return;
  }
  const auto welcome = encode_welcome(g.hello, g.challenge, key_);
  if (::send(g.fd.get(), welcome.data(), welcome.size(), MSG_NOSIGNAL) != ssize_t{welcome.size()}) {
    give_up(number, "");
    return;
  }
  introduce(number, g);
}

void TcpGreeter::expect(Rank peer, uint32_t incarnation) {
  expected_[peer] = incarnation;
  std::vector<uint32_t> held;
  for (const auto& [number, g] : greetings_) {
    if (g.step == Step::kHeld && g.hello.from_rank == static_cast<uint32_t>(peer)) {
      held.push_back(number);
    }
  }
  for (const uint32_t number : held) match(number, greetings_.at(number));
}

// ---- both ---------------------------------------------------------------------------------------

void TcpGreeter::introduce(uint32_t number, Greeting& g) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, g.fd.get(), nullptr);
  set_stream_options(g.fd.get(), options_, timeout_);
  TcpIntroduced out;
  out.peer = static_cast<Rank>(g.dialled ? g.hello.to_rank : g.hello.from_rank);
  out.stream = g.hello.stream;
  out.streams = g.hello.streams;
  out.fd = std::move(g.fd);
  introduced_.push_back(std::move(out));
  greetings_.erase(number);
}

// Of a stranger nothing is told. A dial that fails goes on to the next address (the same one may be
// somebody else's on another machine: bridges of containers), and is the peer's loss after the
// last.
void TcpGreeter::give_up(uint32_t number, const std::string& why) {
  const auto it = greetings_.find(number);
  Greeting& g = it->second;
  if (g.dialled && g.addresses.size() > 1) {
    g.addresses.erase(g.addresses.begin());
    g.read.clear();
    g.step = Step::kDialling;
    try_address(number, g);
    return;
  }
  if (g.dialled) failures_.push_back({static_cast<Rank>(g.hello.to_rank), why});
  greetings_.erase(it);
}

void TcpGreeter::forget(Rank peer) {
  expected_.erase(peer);
  const auto of_peer = [peer](const auto& entry) {
    return entry.second.dialled && entry.second.hello.to_rank == static_cast<uint32_t>(peer);
  };
  std::erase_if(greetings_, of_peer);
}

TcpGreeter::Read TcpGreeter::read_exactly(Greeting& g, size_t bytes) {
  const size_t have = g.read.size();
  g.read.resize(bytes);
  const ssize_t n = recv(g.fd.get(), g.read.data() + have, bytes - have, MSG_DONTWAIT);
  g.read.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return Read::kEnd;
  return g.read.size() == bytes ? Read::kAll : Read::kPart;
}

void TcpGreeter::advance(uint32_t number, Greeting& g) {
  if (g.step == Step::kDialling) return finish_dial(number, g);
  if (g.step == Step::kHeld) return give_up(number, "");  // it has nothing to say before a welcome
  const size_t due = g.step == Step::kChallengeDue ? kChallengeBytes
                     : g.step == Step::kHelloDue   ? kHelloBytes
                                                   : kWelcomeBytes;
  const Read read = read_exactly(g, due);
  if (read == Read::kEnd) {
    give_up(number, fmt::format("the greeting was refused by {} (it has ended, or belongs to "
                                "another run)",
                                g.dialled ? g.addresses[0].text() : ""));
  }
  if (read != Read::kAll) return;
  if (g.step == Step::kChallengeDue) return answer_challenge(number, g);
  if (g.step == Step::kHelloDue) return read_hello(number, g);
  const std::span<const std::byte> bytes(g.read);
  if (check_welcome(bytes.first<kWelcomeBytes>(), g.hello, g.challenge, key_)) {
    introduce(number, g);
  } else {
    give_up(number, "its welcome was not of this run");
  }
}

void TcpGreeter::on_event(uint32_t number) {
  if (number == 0) return accept_all();
  const auto it = greetings_.find(number);
  if (it != greetings_.end()) advance(number, it->second);
}

// A held greeting waits for this rank itself: no limit, its dialler has one.
void TcpGreeter::on_tick() {
  const double now = steady_seconds();
  std::vector<uint32_t> late;
  for (const auto& [number, g] : greetings_) {
    if (g.step != Step::kHeld && g.deadline < now) late.push_back(number);
  }
  for (const uint32_t number : late) {
    give_up(number, fmt::format("no answer within {:.3g} s", timeout_));
  }
}

}  // namespace kinet
