// Rendezvous of ranks that are processes: a connection to the RendezvousServer of the run. While it
// stands, the run knows that this rank lives; when it breaks without leave(), the rank is lost.
// Thread safety: none; one thread a rank calls.
#pragma once

#include <deque>
#include <string>

#include "comm/rendezvous.h"
#include "comm/rendezvous_wire.h"
#include "comm/sockets.h"
#include "src/base/check.h"

namespace kinet {

class TcpRendezvous : public Rendezvous {
 public:
  // Connects and shows the token; a server that is not there yet is tried again until `timeout`
  // seconds have passed. Throws Error.
  TcpRendezvous(const HostPort& server, std::string token, double timeout);
  ~TcpRendezvous() override = default;  // without leave() before: a loss

  World join(const JoinRequest& request, double timeout) override;
  void set(const std::string& key, const std::string& value) override;
  using Rendezvous::get;
  std::string get(const std::string& key, double timeout, Rank owner) override;
  void report_lost(Rank rank, uint32_t incarnation, const std::string& why) override;
  void leave() override;
  int poll(MembershipSink& sink) override;
  int event_fd() const override { return events_.get(); }

 private:
  void greet(const Deadline& deadline);
  void send(const std::string& frame);
  std::optional<RendezvousFrame> wait_reply(const Deadline& deadline);
  void read_now();
  void take_frames();
  void set_lost(const std::string& why);
  void check_there() const;
  void check_news(Rank owner) const;

  const HostPort server_;
  const std::string token_;
  FileDescriptor socket_, wake_, events_;  // events_: an epoll of the other two
  FrameSplitter in_;
  std::deque<RendezvousFrame> replies_;
  std::vector<MemberNews> news_;
  uint32_t questions_ = 0;
  std::string lost_;  // why the server is gone; "": it is there
  bool told_lost_ = false, left_ = false;
  Rank rank_ = -1;  // since join()
  uint32_t incarnation_ = 0;
};

}  // namespace kinet
