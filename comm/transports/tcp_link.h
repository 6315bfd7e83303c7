// All that tcp knows of one peer while linked to it: the streams, the puts on their way out, the
// puts of which pieces are still to come in.
//
//   stream 0        messages and small puts, in order: control never waits behind bulk
//   streams 1 ..    pieces of large puts; a stream takes the next piece when it has room, so a slow
//                   one takes fewer. A link of a single stream does both with it.
//
//   put 7 of 2.5 MiB, pieces of 1 MiB, three streams: piece 0 to stream 1, piece 1 to stream 2,
//   piece 2 to whichever has room first; complete here when all three have left, announced there
//   when all three are in.
// Thread safety: none; belongs to its transport.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "comm/transports/tcp_regions.h"
#include "comm/transports/tcp_stream.h"

namespace kinet {

// Knobs, from comm_param { tcp { ... } }.
struct TcpOptions {
  int streams = 2;
  uint64_t piece_bytes = 1 << 20;
  int queue_frames = 256;
  int send_buffer = 0, receive_buffer = 0;  // bytes; 0: the kernel's choice
  bool no_delay = true;
  std::string address, interface;
};

class TcpLink : public FrameSink {
 public:
  static constexpr uint64_t kOutstandingPuts = 128;
  static constexpr uint64_t kSmallPut = 16384;  // bytes: up to here a put goes by stream 0

  TcpLink(Rank peer, uint32_t incarnation, const TcpOptions& options, const TcpRegions& regions,
          TransportCounters& counters)
      : peer(peer),
        incarnation(incarnation),
        options_(options),
        regions_(regions),
        counters_(counters),
        puts_(kOutstandingPuts) {}

  // The connections arrive one by one; the link is complete when all `streams` are there.
  void add_stream(int number, int streams, FileDescriptor fd);
  bool complete() const { return !streams_.empty() && missing_ == 0; }
  int streams() const { return static_cast<int>(streams_.size()); }
  TcpStream* stream(int number) { return streams_[number].get(); }

  Post send(std::span<const std::byte> message);
  Post put(const Put& put);
  // Writes on one stream what it has and what it may take of large puts.
  void flush(int number);
  // Reads from one stream and raises what is whole. false: the link has ended, see why().
  bool receive(int number, EventSink& sink);
  // Reads what is left on all streams of a link that is ending.
  void drain(EventSink& sink);

  uint64_t take_completed();  // puts that have left since the last call
  bool has_completed() const { return completed_ > 0; }
  bool broken() const { return broken_; }
  const std::string& why() const { return why_; }
  uint64_t events() const { return events_; }  // raised so far
  void close();                                // sockets are closed, no more events

  std::byte* place(const FrameHeader& put, uint64_t done) override;
  bool on_message_frame(const FrameHeader& message, std::span<const std::byte> payload) override;
  bool on_put_frame(const FrameHeader& put) override;

  const Rank peer;
  const uint32_t incarnation;
  bool announced = false;  // on_connected was raised
  double deadline = 0;     // of coming up

 private:
  struct PutOut {
    Put put;
    uint64_t assigned = 0, sent = 0;  // bytes given to streams, bytes that have left
    bool gone = false;
  };
  struct PutIn {
    uint64_t total = 0, arrived = 0;
    uint32_t notify = 0;
  };

  PutOut& put_of(uint64_t ticket) { return puts_[ticket % kOutstandingPuts]; }
  FrameHeader piece_header(uint64_t ticket, uint64_t bytes);
  void give_piece(TcpStream& stream, uint64_t ticket, uint64_t bytes);
  bool feed(int number);
  void account_sent();
  bool announce(const FrameHeader& put, uint64_t total);
  bool wrong(const std::string& why);
  void break_off(const std::string& why);
  Post busy();
  bool carries_bulk(int number) const { return number > 0 || streams_.size() == 1; }

  const TcpOptions& options_;
  const TcpRegions& regions_;
  TransportCounters& counters_;
  std::vector<std::unique_ptr<TcpStream>> streams_;
  int missing_ = 0;  // streams not yet there

  std::vector<PutOut> puts_;               // a ring of those not yet complete
  uint64_t first_put_ = 0, next_put_ = 0;  // tickets
  std::deque<uint64_t> bulk_;              // tickets of large puts not wholly given to streams
  std::vector<TcpStream::Sent> sent_;
  uint64_t completed_ = 0;

  uint32_t next_message_out_ = 0, next_message_in_ = 0;
  std::map<uint32_t, PutIn> incomplete_;  // by sequence
  EventSink* sink_ = nullptr;             // while receiving
  uint64_t events_ = 0;
  bool broken_ = false, closed_ = false;
  std::string why_;
};

}  // namespace kinet
