#include "comm/tcp_rendezvous.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

namespace kinet {
namespace {

constexpr double kTryAgain = 0.05;    // seconds between attempts while the server is not there
constexpr double kSendTimeout = 30;   // seconds for the server to take a frame
constexpr double kLeaveTimeout = 5;   // seconds for the server to see that this rank leaves
constexpr double kLookAtNews = 0.05;  // seconds between two looks while waiting for a key
constexpr double kServerGrace = 2;    // seconds that the server may be late with bad news

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    fail_runtime("epoll_ctl: {}", system_error(errno));
  }
}

}  // namespace

TcpRendezvous::TcpRendezvous(const HostPort& server, std::string token, double timeout)
    : server_(server), token_(std::move(token)) {
  KINET_CHECK(token_.size() <= kMaxToken, "the run token has {} bytes, {} are the most",
              token_.size(), kMaxToken);
  const Deadline deadline(timeout);
  std::string why = "no time";
  while (!(socket_ = connect_to(server_, deadline, why)) && !deadline.passed()) {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(kTryAgain, deadline.left())));
  }
  if (!socket_) {
    fail_runtime(
        "no rendezvous at {} within {:.3g} s: {}\nhint: it runs in the launcher or in rank 0; is "
        "that started, and can this machine reach it?",
        server_.text(), timeout, why);
  }
  set_rendezvous_options(socket_.get());
  wake_ = FileDescriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  events_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!wake_ || !events_) fail_runtime("the rendezvous: {}", system_error(errno));
  watch(events_.get(), wake_.get());
  watch(events_.get(), socket_.get());
  greet(deadline);
}

void TcpRendezvous::greet(const Deadline& deadline) {
  send(hello_frame(token_));
  const auto reply = wait_reply(deadline);
  if (reply && reply->kind == RendezvousKind::kWelcome) return;
  if (reply && reply->kind == RendezvousKind::kFailed) {
    FrameReader in(reply->body);
    in.number();
    fail("{}", in.text());
  }
  KINET_CHECK(lost_.empty(),
              "the rendezvous at {} refused this rank: {}\nhint: every rank of a run needs the "
              "same run token; is the token file that of this run?",
              server_.text(), lost_);
  fail_runtime("{} took the connection but does not answer as a rendezvous", server_.text());
}

// ---- frames -------------------------------------------------------------------------------------

void TcpRendezvous::check_there() const {
  if (!lost_.empty()) fail_runtime("the rendezvous at {} is gone: {}", server_.text(), lost_);
}

void TcpRendezvous::set_lost(const std::string& why) {
  if (!lost_.empty()) return;
  lost_ = why;
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);  // readable for ever from now on
  eventfd_write(wake_.get(), 1);
}

void TcpRendezvous::send(const std::string& frame) {
  const Deadline deadline(kSendTimeout);
  for (size_t sent = 0; sent < frame.size() && lost_.empty();) {
    const ssize_t n = ::send(socket_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(socket_.get(), POLLOUT, deadline)) {
        set_lost(fmt::format("it takes no bytes for {:.3g} s", kSendTimeout));
      }
    } else if (errno != EINTR) {
      set_lost(system_error(errno));
    }
  }
}

void TcpRendezvous::read_now() {
  std::array<char, 16384> bytes;
  while (lost_.empty()) {
    const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n > 0) {
      in_.add(bytes.data(), static_cast<size_t>(n));
      take_frames();
    } else if (n == 0) {
      set_lost("it closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      set_lost(system_error(errno));
    }
  }
}

void TcpRendezvous::take_frames() {
  RendezvousFrame frame;
  for (;;) {
    const FrameSplitter::Result result = in_.next(kMaxRendezvousFrame, frame);
    if (result == FrameSplitter::Result::kNothingYet) return;
    if (result == FrameSplitter::Result::kBadLength) return set_lost("it sent rubbish");
    if (frame.kind != RendezvousKind::kLost && frame.kind != RendezvousKind::kJoined) {
      replies_.push_back(std::move(frame));
      continue;
    }
    const std::optional<MemberNews> news = read_news(frame);
    if (!news) return set_lost("it sent rubbish");
    news_.push_back(*news);
    eventfd_write(wake_.get(), 1);
  }
}

// The next frame that is an answer; none: the deadline passed, or the server is gone.
std::optional<RendezvousFrame> TcpRendezvous::wait_reply(const Deadline& deadline) {
  for (;;) {
    read_now();
    if (!replies_.empty()) {
      RendezvousFrame frame = std::move(replies_.front());
      replies_.pop_front();
      return frame;
    }
    if (!lost_.empty() || !wait_ready(socket_.get(), POLLIN, deadline)) return std::nullopt;
  }
}

// ---- Rendezvous ---------------------------------------------------------------------------------

World TcpRendezvous::join(const JoinRequest& request, double timeout) {
  check_there();
  send(join_frame(request, timeout));
  const Deadline deadline(timeout + kServerGrace);
  while (const auto reply = wait_reply(deadline)) {
    if (reply->kind == RendezvousKind::kFailed) {
      FrameReader in(reply->body);
      const bool user = in.number() == 0;
      throw Error(in.text(), user ? Error::Kind::kUser : Error::Kind::kRuntime);
    }
    if (reply->kind != RendezvousKind::kWorld) continue;
    std::optional<World> world = read_world(*reply);
    if (!world) break;
    world->token = token_;
    rank_ = world->rank;
    incarnation_ = world->members[world->rank].incarnation;
    return *world;
  }
  check_there();
  fail_runtime("the rendezvous at {} did not say within {:.3g} s that all ranks are there",
               server_.text(), timeout);
}

void TcpRendezvous::set(const std::string& key, const std::string& value) {
  check_there();
  send(FrameWriter().text(key).text(value).frame(RendezvousKind::kSet));
  check_there();
}

// What the news so far say of a rank that is waited for; they are not taken away.
void TcpRendezvous::check_news(Rank owner) const {
  std::string lost;
  for (const MemberNews& n : news_) {
    if (n.rank == owner) lost = n.lost ? n.why : "";
    const bool self = n.rank == rank_ && n.member.incarnation == incarnation_;
    if (self && n.lost) fail_runtime("rank {} was declared lost: {}", n.rank, n.why);
  }
  if (!lost.empty()) fail_runtime("rank {} is lost: {}", owner, lost);
}

std::string TcpRendezvous::get(const std::string& key, double timeout, Rank owner) {
  check_there();
  const uint32_t number = ++questions_;
  send(FrameWriter().number(number).text(key).frame(RendezvousKind::kGet));
  const Deadline deadline(timeout);
  while (!deadline.passed() && lost_.empty()) {
    const auto reply = wait_reply(Deadline(std::min(deadline.left(), kLookAtNews)));
    if (!reply) {
      check_news(owner);
      continue;
    }
    FrameReader in(reply->body);
    // An answer that came too late for its question is passed over.
    if (reply->kind == RendezvousKind::kValue && in.number() == number) return in.text();
  }
  check_there();
  send(FrameWriter().number(number).frame(RendezvousKind::kCancel));
  fail_late(key, timeout, owner);
}

void TcpRendezvous::report_lost(Rank rank, uint32_t incarnation, const std::string& why) {
  if (lost_.empty()) send(lost_frame(RendezvousKind::kReportLost, rank, incarnation, why));
}

// Waits for the server's word: bytes that a closing process leaves behind can be lost on the way.
void TcpRendezvous::leave() {
  if (!lost_.empty() || left_) return;
  send(FrameWriter().frame(RendezvousKind::kLeave));
  const Deadline deadline(kLeaveTimeout);
  left_ = true;
  while (const auto reply = wait_reply(deadline)) {
    if (reply->kind == RendezvousKind::kLeft) return;
  }
}

int TcpRendezvous::poll(MembershipSink& sink) {
  read_now();
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  const std::vector<MemberNews> news = std::exchange(news_, {});
  for (const MemberNews& n : news) {
    if (n.lost) {
      sink.on_member_lost(n.rank, n.member.incarnation, n.why);
    } else {
      sink.on_member_joined(n.rank, n.member);
    }
  }
  const bool gone = !lost_.empty() && !std::exchange(told_lost_, true) && !left_;
  if (gone) sink.on_rendezvous_lost(lost_);
  return static_cast<int>(news.size()) + (gone ? 1 : 0);
}

}  // namespace kinet
