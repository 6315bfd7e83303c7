// The state of a communicator, shared by the files that work on it:
//   communicator.cc           the public face, memory, messages, puts
//   communicator_links.cc     routes, connecting, successors
//   communicator_health.cc    signs of life, losses, goodbyes
//   communicator_progress.cc  polling, sleeping, the progress thread
// Invariant: everything here is touched under `lock` only, but for the atomics.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "comm/communicator.h"

namespace kinet {

// What the heartbeat of a rank says.
struct Heartbeat {
  uint64_t step = 0;
  uint64_t patience = 1;  // this phase may take so many times stall_timeout
  std::array<char, 48> phase{};
};

// Seconds of this machine's steady clock, also where the transports keep virtual time.
double steady_now();

struct Peer {
  PeerState state = PeerState::kConnecting;
  Transport* transport = nullptr;  // its route; null for this rank itself
  std::string transport_name;
  uint32_t incarnation = 0;
  std::deque<std::vector<std::byte>> waiting;  // messages without credit
  uint64_t posted = 0, completed = 0;          // puts to it
  uint64_t arrived = 0;                        // puts of it, of this incarnation
  std::optional<uint64_t> goodbye;             // it leaves once so many of its puts are here
  uint64_t first_posted = 0;                   // of `posted`: those to earlier incarnations
  double heard = 0;                            // last sign of life
  Heartbeat beat;
  double beat_changed = 0;  // when its step last changed
  bool stall_told = false;
  std::string why_lost;
};

// A message or the notification of a put that came before its handler.
struct HeldEvent {
  Rank from = 0;
  uint8_t kind = 0;
  bool is_put = false;
  uint32_t tag = 0;
  uint64_t bytes = 0;
  std::vector<std::byte> payload;
};

struct Communicator::Impl : EventSink, MembershipSink {
  Impl(World the_world, std::unique_ptr<Rendezvous> the_rendezvous, const CommOptions& options);
  ~Impl() override;

  // --- communicator_links.cc
  void find_usable();                             // fills usable, starts the transports
  std::string choose(Rank peer);                  // name of the transport to it
  Transport& transport(const std::string& name);  // made when first asked for
  void link(Rank peer);                           // route and offer
  void connect(Rank peer);                        // REQUIRES: link(peer)
  void wait_for_links();
  void admit(Rank rank, const Member& member);  // a successor
  void tell_routes() const;
  std::string offer_key(Rank from, uint32_t from_incarnation, Rank to,
                        uint32_t to_incarnation) const;

  // --- communicator_health.cc
  void beat();  // timers: at most once a millisecond
  void send_heartbeats(double now);
  void look_for_silence(double now);
  void look_for_stall(Rank r, double now);
  void lose(Rank peer, const std::string& why);  // once an incarnation
  void end_link(Rank peer, PeerState state, const std::string& why);
  void say_goodbye();
  void see_off(Rank peer);  // it has said goodbye and nothing of it is under way
  void on_own_message(Rank from, uint8_t kind, std::span<const std::byte> payload);
  void drain();  // last messages
  std::string self_lost_text() const;
  void check_self() const;               // throws "declared lost"
  std::string name_of(Rank peer) const;  // "rank 2 (host a, process 77)"
  std::string describe_states() const;

  // --- communicator_progress.cc
  int progress();
  // Serves events until done() or now() >= deadline; returns done(). Throws "declared lost".
  bool wait(const std::function<bool()>& done, double deadline);
  double now() const;
  void flush_waiting(Rank peer);
  void hold(HeldEvent event);
  void deliver_held(uint8_t kind);
  void rearm_for_sleeper();
  bool sleep(double seconds);  // lock must not be held
  double sleep_limit(double deadline);
  double next_spin();
  void run_thread();
  void start_thread();
  void stop_thread();
  void build_wait_set();

  // --- events of the transports
  void on_connected(Rank peer) override;
  void on_message(Rank from, std::span<const std::byte> message) override;
  void on_put_arrived(Rank from, uint32_t notify, uint64_t bytes) override;
  void on_puts_completed(Rank to, uint64_t count) override;
  void on_peer_lost(Rank peer, const std::string& why) override;
  // --- news of the rendezvous
  void on_member_lost(Rank rank, uint32_t incarnation, const std::string& why) override;
  void on_member_joined(Rank rank, const Member& member) override;
  void on_rendezvous_lost(const std::string& why) override;

  bool send(Rank peer, uint8_t kind, std::span<const std::byte> payload);
  void heard_from(Rank peer);
  void log(const std::string& text) const {
    if (options.log) options.log(text);
  }
  void warn(const std::string& text) const { options.warn ? options.warn(text) : log(text); }

  World world;
  std::unique_ptr<Rendezvous> rendezvous;
  CommOptions options;
  std::string wanted;  // transport asked for, or "auto"
  double setup_timeout = 0, heartbeat_interval = 0, heartbeat_timeout = 0, stall_timeout = 0;
  double spin = 0;  // seconds

  mutable std::recursive_mutex lock;
  std::map<std::string, std::unique_ptr<Transport>> transports;
  std::vector<std::string> usable;  // names, best first
  std::vector<Peer> peers;          // by rank
  std::vector<Rank> losses;         // in the order they became known
  std::array<MessageHandler, 256> message_handlers;
  std::array<PutHandler, 256> put_handlers;
  std::map<int, LostHandler> lost_handlers;
  std::map<int, JoinHandler> join_handlers;
  std::map<int, std::function<void()>> pumps;
  std::vector<HeldEvent> held;
  int next_number = 1;
  std::string self_lost;                         // why this rank was declared lost, or ""
  std::string thread_error;                      // what ended the progress thread, or ""
  std::vector<std::pair<Rank, Member>> joining;  // successors not yet linked
  bool left = false, rendezvous_gone = false;
  bool linked = false;         // set-up is over
  bool virtual_clock = false;  // transport sim: real time decides nothing
  int polling = 0;             // depth: handlers may not poll
  int vain_spins = 0;          // in a row, that ended in a sleep
  unsigned spins = 0;
  uint64_t overslept = 0;
  bool retry = false;  // something was busy: sleep only shortly, once
  double next_timer = 0, next_beat = 0, last_progress = 0;
  Heartbeat own_beat;

  int epoll_fd = -1;
  bool all_have_fds = true;
  std::atomic<int> waiters{0};  // threads in wait_until
  std::atomic<bool> stop{false};
  std::mutex park_mutex;
  std::condition_variable park;
  std::atomic<bool> parked{false};
  std::atomic<bool> thread_sleeps{false};  // and relies on transports that are armed
  int wake_fd = -1;                        // ends a sleep of the progress thread
  std::thread thread;
};

}  // namespace kinet
