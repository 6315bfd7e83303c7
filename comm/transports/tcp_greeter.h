// Brings tcp streams up: listens, dials, and holds the greetings of tcp_handshake.h. What comes out
// is a connection to a rank of this run that has called connect() for exactly this process.
//
// Who dials: the lower rank. A greeting may come before this rank has called connect(): it is held.
// Whatever a stranger sends closes that connection and nothing else.
// Thread safety: none; belongs to its transport.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/sockets.h"
#include "comm/transport.h"
#include "comm/transports/tcp_handshake.h"
#include "comm/transports/tcp_link.h"

namespace kinet {

// A connection whose two ends know each other.
struct TcpIntroduced {
  Rank peer = 0;
  int stream = 0, streams = 1;
  FileDescriptor fd;
};

struct TcpDialFailure {
  Rank peer = 0;
  std::string why;
};

class TcpGreeter {
 public:
  // `epoll` gets events with `tag` | number for what is on its way.
  TcpGreeter(const TransportConfig& config, const TcpOptions& options, int epoll, uint64_t tag);

  const std::vector<HostPort>& reachable_at() const { return reachable_at_; }

  void dial(Rank peer, uint32_t incarnation, const std::vector<HostPort>& addresses);
  void expect(Rank peer, uint32_t incarnation);  // the peer dials
  void forget(Rank peer);                        // its link has ended

  void on_event(uint32_t number);
  void on_tick();  // gives up what takes too long
  bool idle() const { return greetings_.empty(); }

  std::vector<TcpIntroduced> take_introduced() { return std::exchange(introduced_, {}); }
  std::vector<TcpDialFailure> take_failures() { return std::exchange(failures_, {}); }

 private:
  enum class Step { kDialling, kChallengeDue, kWelcomeDue, kHelloDue, kHeld };
  struct Greeting {
    FileDescriptor fd;
    Step step = Step::kHelloDue;
    Hello hello;
    Nonce challenge{};
    std::vector<HostPort> addresses;  // to dial; [0] is being tried
    std::vector<std::byte> read;
    double deadline = 0;
    bool dialled = false;
  };
  using Greetings = std::map<uint32_t, Greeting>;

  void accept_all();
  void advance(uint32_t number, Greeting& g);
  void try_address(uint32_t number, Greeting& g);
  void finish_dial(uint32_t number, Greeting& g);
  void answer_challenge(uint32_t number, Greeting& g);
  void read_hello(uint32_t number, Greeting& g);
  void match(uint32_t number, Greeting& g);
  void introduce(uint32_t number, Greeting& g);
  void give_up(uint32_t number, const std::string& why);
  enum class Read { kAll, kPart, kEnd };
  static Read read_exactly(Greeting& g, size_t bytes);
  void watch(uint32_t number, int fd, uint32_t events) const;

  const Rank rank_;
  const uint32_t incarnation_;
  const SipKey key_;
  const double timeout_;
  const TcpOptions& options_;
  const int epoll_;
  const uint64_t tag_;
  FileDescriptor listener_;
  std::vector<HostPort> reachable_at_;
  Greetings greetings_;
  uint32_t last_number_ = 0;               // 0 is the listener
  std::map<Rank, uint32_t> expected_;      // incarnation, by rank
  std::vector<TcpIntroduced> introduced_;  // not yet taken
  std::vector<TcpDialFailure> failures_;
};

}  // namespace kinet
