// The MPI transport of one rank: how it works is told in mpi_transport.cc.
//   mpi_transport.cc  links, messages and puts that go out
//   mpi_arrivals.cc   polling: what has been done, what comes in, how links end
// Thread safety: none, as the contract says.
#pragma once

#include <mpi.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mpi/mpi_parts.h"
#include "comm/mpi/mpi_session.h"
#include "comm/transport.h"

namespace kinet {

inline constexpr int kMpiControlTag = 1, kMpiDataTag = 2;
inline constexpr uint32_t kMpiWindow = 64;  // messages and puts to one peer without credit
inline constexpr int kMpiReceives = 64;     // posted; what comes on top waits inside MPI
inline constexpr size_t kMpiSlots = 256;    // headers under way to all peers
inline constexpr uint64_t kMpiPiece = uint64_t{1} << 30;  // bytes; counts of MPI are ints
inline constexpr double kMpiGoodbye = 2;                  // seconds for last messages to leave
inline constexpr int kMpiBurst = 256;                     // messages taken in one poll
static_assert(kMpiWindow >= 32, "half of it has to cover the 16 puts that the contract promises");

struct MpiInPut {
  int pieces = 0;
  uint32_t notify = 0;
  uint64_t bytes = 0;
};

struct MpiLink {
  int mpi_rank = -1;  // -1: connect() was not called
  uint32_t incarnation = 0;
  bool greeted = false;  // its hello is here
  bool up = false, lost = false;
  uint32_t credits = kMpiWindow, owed = 0;
  std::deque<int> out;    // pieces under way of each put not yet reported, oldest first
  uint64_t reported = 0;  // puts
  std::map<uint64_t, MpiInPut> in;
  uint64_t next_in = 0;
};

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(const TransportConfig& config);
  ~MpiTransport() override;
  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override;
  std::string offer(Rank) override { return std::to_string(session_.rank()); }
  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override;
  void disconnect(Rank peer) override;
  Post send(Rank peer, std::span<const std::byte> message) override;
  Post put(Rank peer, const Put& put) override;
  int poll(EventSink& sink) override;
  double max_sleep() const override { return 0.001; }  // seconds: MPI wakes nobody

  Capabilities capabilities() const override;
  TransportCounters counters() const override { return counters_; }
  std::string describe(Rank peer, bool verbose) const override;

 private:
  struct Receive {
    std::unique_ptr<MpiBuffer> buffer;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  int parse_rank(const std::string& offer) const;
  Post busy();

  void post(Receive& receive);
  // A header with what follows it. false: there is no slot, or MPI refuses.
  bool post(MpiLink& link, MpiHeader header, std::span<const std::byte> bytes);
  bool post_bytes(Rank peer, const Put& put);

  // Takes finished requests off the list; returns how many there were. No sink: nothing is told.
  int finish(EventSink* sink);
  void finish(const MpiJob& job, EventSink* sink);
  void arrived(Rank from, const MpiInPut& put, EventSink& sink);
  void report_puts(Rank peer, EventSink& sink, int& events);

  // The oldest posted receive; -1: nothing is there, else the number of events.
  int take(EventSink& sink);
  int handle(int source, const MpiHeader& header, std::span<const std::byte> rest, EventSink& sink);
  int greet_early(EventSink& sink);
  // A greeting may come before our own connect(): kept till then.
  int greet(int source, const MpiHeader& header, std::span<const std::byte> rest, EventSink& sink);
  int expect(Rank peer, const MpiHeader& header, EventSink& sink);

  int lose(Rank peer, const std::string& why, EventSink& sink, bool orderly = false);
  void end(MpiLink& link);

  MpiSession& session_ = MpiSession::get();
  const TransportConfig config_;
  std::shared_ptr<MpiRegions> regions_ = std::make_shared<MpiRegions>();
  std::vector<MpiLink> links_;   // by rank of the run
  std::map<int, Rank> peer_of_;  // by rank of MPI
  std::map<int, std::pair<MpiHeader, std::string>> early_;
  std::vector<std::unique_ptr<MpiBuffer>> slots_;
  std::vector<size_t> free_;
  std::vector<Receive> ring_;
  size_t next_ = 0;  // receive of the ring that is the oldest
  MpiRequests requests_;
  std::vector<std::pair<Rank, std::string>> lost_;
  TransportCounters counters_;
};

std::unique_ptr<Transport> make_mpi_transport(const TransportConfig& config);  // throws Error

}  // namespace kinet
