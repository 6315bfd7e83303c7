#include "comm/rendezvous_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

namespace kinet {
namespace {

constexpr int kMaxRanks = 16384;                 // so that a World fits into one frame
constexpr size_t kMinToken = 16;                 // bytes
constexpr size_t kMaxStrangers = 64;             // connections that have not shown the token
constexpr size_t kMaxUnread = size_t{16} << 20;  // bytes that a peer lets lie
constexpr int kMaxLines = 200;                   // of the log, then it falls silent
constexpr double kAcceptPause = 0.2;             // seconds, when no descriptor is left
constexpr double kLongestSleep = 60;             // seconds

constexpr const char* kClosed = "its connection to the rendezvous was closed";

}  // namespace

RendezvousServer::RendezvousServer(RendezvousServerOptions options)
    : options_(std::move(options)), book_(options_.size, options_.replace) {
  KINET_CHECK(options_.size >= 1 && options_.size <= kMaxRanks, "{} ranks: 1 to {} can meet",
              options_.size, kMaxRanks);
  KINET_CHECK(options_.token.size() >= kMinToken && options_.token.size() <= kMaxToken,
              "the run token has {} bytes\nhint: {} to {} are taken; 'openssl rand -hex 16' makes "
              "one",
              options_.token.size(), kMinToken, kMaxToken);
  listener_ = listen_on(options_.listen);
  address_ = {options_.listen.host, local_address(listener_.get()).port};
  wake_ = FileDescriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) fail_runtime("eventfd: {}", system_error(errno));
  thread_ = std::thread([this] { serve(); });
}

RendezvousServer::~RendezvousServer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void RendezvousServer::process_ended(Rank rank, int64_t process, const std::string& why,
                                     Error::Kind kind) {
  {
    const std::lock_guard lock(mutex_);
    book_.process_ended(rank, process, why, kind);
  }
  eventfd_write(wake_.get(), 1);
}

bool RendezvousServer::wait_until_left(double seconds) {
  constexpr std::chrono::milliseconds kLook{5};
  for (const Deadline deadline(seconds);; std::this_thread::sleep_for(kLook)) {
    const std::lock_guard lock(mutex_);
    if (book_.all_left()) return true;
    if (deadline.passed()) return false;
  }
}

void RendezvousServer::log(const std::string& line) {
  if (!options_.log || lines_logged_ > kMaxLines) return;
  const bool last = ++lines_logged_ > kMaxLines;
  options_.log(last ? "rendezvous: further lines are left out" : "rendezvous: " + line);
}

// ---- the thread ---------------------------------------------------------------------------------

// The last round tells what has happened until then.
void RendezvousServer::serve() {
  for (bool last = false; !last;) {
    const double now = wait_for_sockets();
    const std::lock_guard lock(mutex_);
    last = stop_;
    for (Peer& peer : peers_) {
      if (peer.end.empty()) take_frames(peer, now);
    }
    book_.tick(now);
    sweep(now);
    carry_out();
  }
}

// Sleeps until something can be read or written, or a deadline; then reads. Returns the time.
double RendezvousServer::wait_for_sockets() {
  std::vector<pollfd> entries;
  std::vector<Peer*> order;  // peers are removed by this thread alone
  double until = 0;
  {
    const std::lock_guard lock(mutex_);
    const double now = steady_seconds();
    until = std::min(book_.next_deadline(), now + kLongestSleep);
    if (accept_again_ > now) until = std::min(until, accept_again_);
    entries.push_back({wake_.get(), POLLIN, 0});
    entries.push_back({accept_again_ > now ? -1 : listener_.get(), POLLIN, 0});
    for (Peer& peer : peers_) {
      const bool writes = !peer.out.empty();
      entries.push_back({peer.fd.get(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
      order.push_back(&peer);
      if (!peer.knows_token) until = std::min(until, peer.since + options_.hello_timeout);
    }
    until -= now;
  }
  const int wait = static_cast<int>(std::ceil(std::max(0.0, until) * 1000));
  const int n = ::poll(entries.data(), entries.size(), wait);
  const double now = steady_seconds();
  if (n <= 0) return now;
  const std::lock_guard lock(mutex_);
  eventfd_t ignored = 0;
  if (entries[0].revents != 0) eventfd_read(wake_.get(), &ignored);
  for (size_t i = 0; i < order.size(); ++i) {
    if ((entries[i + 2].revents & POLLOUT) != 0) write_to(*order[i]);
    if ((entries[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(*order[i], now);
  }
  if (entries[1].revents != 0) accept_all(now);
  return now;
}

void RendezvousServer::accept_all(double now) {
  for (;;) {
    FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      const int error = errno;
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        log(fmt::format("a connection waits: {}", system_error(error)));
        accept_again_ = now + kAcceptPause;
      }
      if (error != EINTR && error != ECONNABORTED) return;
      continue;
    }
    set_rendezvous_options(fd.get());
    make_room();
    Peer peer;
    peer.id = ++last_id_;
    peer.name = peer_text(fd.get());
    peer.fd = std::move(fd);
    peer.since = now;
    peers_.push_back(std::move(peer));
  }
}

// Strangers cannot keep ranks out: of too many the oldest goes. A rank shows its token at once.
void RendezvousServer::make_room() {
  const auto stranger = [](const Peer& p) { return !p.knows_token && p.end.empty(); };
  const auto count = std::count_if(peers_.begin(), peers_.end(), stranger);
  if (static_cast<size_t>(count) < kMaxStrangers) return;
  std::find_if(peers_.begin(), peers_.end(), stranger)->end =
      "too many connections without a token";
}

void RendezvousServer::read_from(Peer& peer, double now) {
  std::array<char, 65536> bytes;
  while (peer.end.empty()) {
    const ssize_t n = ::recv(peer.fd.get(), bytes.data(), bytes.size(), 0);
    if (n > 0) {
      peer.in.add(bytes.data(), static_cast<size_t>(n));
      take_frames(peer, now);
    } else if (n == 0) {
      peer.end = kClosed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      peer.end = fmt::format("{} ({})", kClosed, system_error(errno));
    }
  }
}

void RendezvousServer::take_frames(Peer& peer, double now) {
  RendezvousFrame frame;
  while (peer.end.empty()) {
    const size_t limit = peer.knows_token ? kMaxRendezvousFrame : kMaxHello;
    const FrameSplitter::Result result = peer.in.next(limit, frame);
    if (result == FrameSplitter::Result::kNothingYet) return;
    if (result == FrameSplitter::Result::kBadLength) {
      peer.end = "it sent a frame of an impossible length";
    } else if (!peer.knows_token) {
      greet(peer, frame);
    } else if (const std::string bad = book_.receive(peer.id, frame, now); !bad.empty()) {
      peer.end = "it sent " + bad;
    }
  }
}

void RendezvousServer::greet(Peer& peer, const RendezvousFrame& frame) {
  const HelloVerdict verdict = read_hello(frame, options_.token);
  if (verdict.problem.empty()) {
    peer.knows_token = true;
    peer.out += FrameWriter().frame(RendezvousKind::kWelcome);
  } else if (verdict.knows_token) {
    peer.out += FrameWriter().number(0).text(verdict.problem).frame(RendezvousKind::kFailed);
  }
  write_to(peer);
  if (!verdict.problem.empty()) peer.end = verdict.problem;
}

void RendezvousServer::write_to(Peer& peer) {
  while (!peer.out.empty() && peer.end.empty()) {
    const ssize_t n = ::send(peer.fd.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
    if (n > 0) {
      peer.out.erase(0, static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (peer.out.size() > kMaxUnread) peer.end = "it does not read what it is sent";
      return;
    } else if (errno != EINTR) {
      peer.end = fmt::format("{} ({})", kClosed, system_error(errno));
    }
  }
}

// Takes the book's answers to their sockets; a socket that fails may give rise to more of them.
void RendezvousServer::carry_out() {
  for (;;) {
    close_ended();
    const auto outgoing = book_.take_outgoing();
    if (outgoing.empty()) return;
    for (const auto& [to, frame] : outgoing) {
      const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                     [to = to](const Peer& p) { return p.id == to; });
      if (peer == peers_.end()) continue;
      peer->out += frame;
      write_to(*peer);
    }
  }
}

void RendezvousServer::sweep(double now) {
  for (Peer& peer : peers_) {
    if (!peer.knows_token && peer.end.empty() && now >= peer.since + options_.hello_timeout) {
      peer.end = fmt::format("no run token within {:.3g} s", options_.hello_timeout);
    }
  }
}

void RendezvousServer::close_ended() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (peer->end.empty()) {
      ++peer;
      continue;
    }
    if (!peer->knows_token) {
      log(fmt::format("connection from {} refused: {}", peer->name, peer->end));
    } else if (!peer->end.starts_with(kClosed)) {
      log(fmt::format("{} at {} cut off: {}", book_.name_of(peer->id), peer->name, peer->end));
    }
    book_.closed(peer->id, peer->end);
    peer = peers_.erase(peer);
  }
}

}  // namespace kinet
