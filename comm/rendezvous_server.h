// The rendezvous of a run whose ranks are processes: one thread that listens, hosted by the
// launcher, or by rank 0. What it decides is in RendezvousBook; this file owns the sockets.
//
// A connection has to show the run token at once; without it nothing is answered, a line is
// logged, the connection is closed. A member's connection is also how its end is noticed.
// Bounds: frames (kMaxRendezvousFrame), connections, bytes waiting for a reader that does not
// read, seconds until the token. Whoever breaks one loses its own connection and nothing else.
// Thread safety: all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "comm/rendezvous_book.h"
#include "comm/sockets.h"

namespace kinet {

using LogLine = std::function<void(const std::string& line)>;  // called from the server's thread

struct RendezvousServerOptions {
  int size = 1;
  std::string token;                // of the run; at least 16 bytes
  HostPort listen{"127.0.0.1", 0};  // port 0: any that is free
  bool replace = false;             // see RendezvousBook
  double hello_timeout = 5;         // seconds for the token
  LogLine log;                      // may be empty
};

class RendezvousServer {
 public:
  explicit RendezvousServer(RendezvousServerOptions options);  // throws Error
  ~RendezvousServer();                                         // closes all connections
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  const HostPort& address() const { return address_; }
  // The launcher saw the process of a rank end.
  void process_ended(Rank rank, int64_t process, const std::string& why, Error::Kind kind);
  // Waits until all members have left or are gone; false: `seconds` passed.
  bool wait_until_left(double seconds);

 private:
  struct Peer {
    RendezvousBook::Connection id = 0;
    FileDescriptor fd;
    std::string name;  // address, for the log
    double since = 0;
    bool knows_token = false;
    FrameSplitter in;
    std::string out;
    std::string end;  // why it is to be closed; "": it is not
  };

  void serve();
  double wait_for_sockets();
  void accept_all(double now);
  void make_room();
  void read_from(Peer& peer, double now);
  void take_frames(Peer& peer, double now);
  void greet(Peer& peer, const RendezvousFrame& frame);
  void write_to(Peer& peer);
  void carry_out();
  void sweep(double now);
  void close_ended();
  void log(const std::string& line);

  const RendezvousServerOptions options_;
  FileDescriptor listener_, wake_;
  HostPort address_;
  std::mutex mutex_;  // of all below
  RendezvousBook book_;
  std::list<Peer> peers_;
  RendezvousBook::Connection last_id_ = 0;
  double accept_again_ = 0;  // no descriptors were left: until then nobody is let in
  int lines_logged_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace kinet
