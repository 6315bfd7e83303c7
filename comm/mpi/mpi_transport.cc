// Transport mpi, inside libkinet_mpi.so.
//
//   send  one message: header + bytes, MPI_Isend from a slot of this transport
//   put   a header, then the bytes, straight from the region (zero copy on our side); the receiver
//         checks the header and posts a receive straight into the checked part of its region
//   poll  MPI_Testsome on what is under way; the oldest of the posted receives
//
// Order: messages and headers have one tag, so MPI delivers those of one sender in order; they are
//   taken from a ring of receives in the order of posting. Bytes of puts have a second tag; their
//   receives are posted in the order of the headers, which is the order of sending.
// Bounds: a peer may have kWindow messages and puts with us that we have not looked at; credits
//   travel back on every header, and alone when half of the window is owed.
// A put, listed:  sender: credit 64 -> 63, Isend(header), Isend(bytes)  receiver: header: region
//   checked, Irecv(into region); bytes there: on_put_arrived; owes 1  sender: both Isends done:
//   on_puts_completed.
// Loss: MPI has no links that end alone. A peer that says goodbye ends in order; one that dies
//   takes all with it (mpirun ends them), unless its error shows first: then that peer is lost.
// Thread safety: none, as the contract says; MPI_THREAD_SERIALIZED.
#include "comm/mpi/mpi_transport.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "comm/mpi/mpi_parts.h"
#include "comm/mpi/mpi_session.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr int kControlTag = 1, kDataTag = 2;
constexpr uint32_t kWindow = 64;                // messages and puts to one peer without credit
constexpr int kReceives = 64;                   // posted; what comes on top waits inside MPI
constexpr size_t kSlots = 256;                  // headers under way to all peers
constexpr uint64_t kPiece = uint64_t{1} << 30;  // bytes; counts of MPI are ints
constexpr double kGoodbye = 2;                  // seconds for last messages to leave
constexpr int kBurst = 256;                     // messages taken in one poll
static_assert(kWindow >= 32, "half of it has to cover the 16 puts that the contract promises");

struct InPut {
  int pieces = 0;
  uint32_t notify = 0;
  uint64_t bytes = 0;
};

struct Link {
  int mpi_rank = -1;  // -1: connect() was not called
  uint32_t incarnation = 0;
  bool greeted = false;  // its hello is here
  bool up = false, lost = false;
  uint32_t credits = kWindow, owed = 0;
  std::deque<int> out;    // pieces under way of each put not yet reported, oldest first
  uint64_t reported = 0;  // puts
  std::map<uint64_t, InPut> in;
  uint64_t next_in = 0;
};

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(const TransportConfig& config)
      : config_(config), links_(config.size), slots_(kSlots), ring_(kReceives) {
    KINET_CHECK(session_.size() >= config.size,
                "transport mpi: mpirun started {} processes, the run has {} ranks", session_.size(),
                config.size);
    for (size_t i = 0; i < kSlots; ++i) free_.push_back(kSlots - 1 - i);
    for (Receive& receive : ring_) {
      receive.buffer = std::make_unique<MpiBuffer>();
      post(receive);
    }
  }

  ~MpiTransport() override {
    if (std::uncaught_exceptions() > 0) session_.note_loss();  // an error ends this rank
    for (Rank r = 0; r < static_cast<Rank>(links_.size()); ++r) disconnect(r);
    const double until = now() + kGoodbye;
    while (!requests_.empty() && now() < until) {
      if (finish(nullptr) == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    for (Receive& receive : ring_) {
      int done = 0;
      MPI_Cancel(&receive.request);
      MPI_Test(&receive.request, &done, MPI_STATUS_IGNORE);
      // A receive that MPI does not let go may still be written: its memory stays.
      if (done == 0) static_cast<void>(receive.buffer.release());
    }
    for (const MpiJob& job : requests_.jobs()) {
      if (job.kind == MpiJob::Kind::kSlot) static_cast<void>(slots_[job.slot].release());
    }
  }

  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override {
    ++counters_.registrations;
    return std::make_unique<MpiRegion>(block, regions_);
  }

  std::string offer(Rank) override { return fmt::format("{}", session_.rank()); }

  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override {
    Link link;
    link.mpi_rank = parse_rank(offer);
    if (link.mpi_rank < 0) {
      lost_.emplace_back(peer, fmt::format("it offers '{}' for its rank in MPI", offer));
      return;
    }
    link.incarnation = incarnation;
    links_[peer] = link;
    peer_of_[link.mpi_rank] = peer;
    MpiHeader hello;
    hello.kind = HeaderKind::kHello;
    if (!post(links_[peer], hello, std::as_bytes(std::span(config_.token)))) {
      lost_.emplace_back(peer, "no room for a greeting");
    }
  }

  void disconnect(Rank peer) override {
    Link& link = links_[peer];
    if (link.mpi_rank >= 0 && !link.lost) {
      MpiHeader bye;
      bye.kind = HeaderKind::kBye;
      post(link, bye, {});
    }
    end(link);
  }

  Post send(Rank peer, std::span<const std::byte> message) override {
    KINET_DCHECK(message.size() <= kMaxMessage);
    Link& link = links_[peer];
    if (link.lost) return Post::kPeerLost;
    if (!link.up || link.credits == 0 || free_.empty()) return busy();
    if (!post(link, MpiHeader{}, message)) return Post::kPeerLost;
    --link.credits;
    ++counters_.messages_sent;
    return Post::kAccepted;
  }

  Post put(Rank peer, const Put& put) override {
    check_put(put);
    Link& link = links_[peer];
    if (link.lost) return Post::kPeerLost;
    if (!link.up || link.credits == 0 || free_.empty() || link.out.size() >= kWindow) return busy();
    MpiHeader header;
    header.kind = HeaderKind::kPut;
    header.notify = put.notify;
    header.key = put.to.key;
    header.offset = put.to_offset;
    header.bytes = put.bytes;
    if (!post(link, header, {}) || !post_bytes(peer, put)) return Post::kPeerLost;
    --link.credits;
    ++counters_.puts;
    counters_.put_bytes += put.bytes;
    return Post::kAccepted;
  }

  int poll(EventSink& sink) override {
    int events = 0;
    for (const auto& [peer, why] : std::exchange(lost_, {})) events += lose(peer, why, sink);
    events += finish(&sink) + greet_early(sink);
    for (int i = 0; i < kBurst; ++i) {
      const int taken = take(sink);
      if (taken < 0) break;
      events += taken;
    }
    for (Rank r = 0; r < static_cast<Rank>(links_.size()); ++r) {
      Link& link = links_[r];
      report_puts(r, sink, events);
      if (link.up && link.owed >= kWindow / 2) {
        MpiHeader credit;
        credit.kind = HeaderKind::kCredit;
        post(link, credit, {});
      }
    }
    return events;
  }

  double max_sleep() const override { return 0.001; }  // seconds: MPI wakes nobody

  Capabilities capabilities() const override {
    Capabilities c;
    c.survives_peer_loss = false;
    c.outstanding_puts = kWindow;
    return c;
  }
  TransportCounters counters() const override { return counters_; }
  std::string describe(Rank peer, bool verbose) const override {
    std::string out = fmt::format("mpi: {}, rank {} of {} in MPI_COMM_WORLD", mpi_name(),
                                  links_[peer].mpi_rank, session_.size());
    if (verbose) {
      out +=
          fmt::format(", window {}, {} receives, pieces of {} bytes", kWindow, kReceives, kPiece);
    }
    return out;
  }

 private:
  struct Receive {
    std::unique_ptr<MpiBuffer> buffer;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  int parse_rank(const std::string& offer) const {
    int rank = -1;
    try {
      rank = std::stoi(offer);
    } catch (const std::exception&) {
      return -1;
    }
    return rank < session_.size() ? rank : -1;
  }

  Post busy() {
    ++counters_.busy;
    return Post::kBusy;
  }

  // ---- posting

  void post(Receive& receive) {
    check_mpi(MPI_Irecv(receive.buffer->data(), static_cast<int>(receive.buffer->size()), MPI_BYTE,
                        MPI_ANY_SOURCE, kControlTag, MPI_COMM_WORLD, &receive.request),
              "MPI_Irecv");
  }

  // A header with what follows it. false: there is no slot, or MPI refuses.
  bool post(Link& link, MpiHeader header, std::span<const std::byte> bytes) {
    if (free_.empty()) return false;
    const size_t slot = free_.back();
    if (!slots_[slot]) slots_[slot] = std::make_unique<MpiBuffer>();
    header.incarnation = config_.incarnation;
    header.credits = std::exchange(link.owed, 0);
    if (header.kind != HeaderKind::kPut) header.bytes = bytes.size();
    std::byte* out = slots_[slot]->data();
    std::memcpy(out, &header, sizeof(header));
    std::copy(bytes.begin(), bytes.end(), out + sizeof(header));
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Isend(out, static_cast<int>(sizeof(header) + bytes.size()), MPI_BYTE,
                               link.mpi_rank, kControlTag, MPI_COMM_WORLD, &request);
    if (code != MPI_SUCCESS) {
      lost_.emplace_back(peer_of_[link.mpi_rank], "MPI_Isend: " + mpi_error_text(code));
      return false;
    }
    free_.pop_back();
    requests_.add(request, {MpiJob::Kind::kSlot, slot, peer_of_[link.mpi_rank], 0, ""});
    return true;
  }

  bool post_bytes(Rank peer, const Put& put) {
    Link& link = links_[peer];
    link.out.push_back(0);
    const uint64_t number = link.reported + link.out.size() - 1;
    for (uint64_t done = 0; done < put.bytes; done += kPiece) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int code = MPI_Isend(put.from->data() + put.from_offset + done,
                                 static_cast<int>(std::min(kPiece, put.bytes - done)), MPI_BYTE,
                                 link.mpi_rank, kDataTag, MPI_COMM_WORLD, &request);
      if (code != MPI_SUCCESS) {
        lost_.emplace_back(peer, "MPI_Isend: " + mpi_error_text(code));
        return false;
      }
      ++link.out.back();
      requests_.add(request, {MpiJob::Kind::kPutOut, 0, peer, number, ""});
    }
    return true;
  }

  // ---- what has ended

  // Takes finished requests off the list; returns how many there were. No sink: nothing is told.
  int finish(EventSink* sink) {
    const std::vector<MpiJob> finished = requests_.take_finished();
    for (const MpiJob& job : finished) finish(job, sink);
    return static_cast<int>(finished.size());
  }

  void finish(const MpiJob& job, EventSink* sink) {
    if (job.kind == MpiJob::Kind::kSlot) free_.push_back(job.slot);
    if (job.kind == MpiJob::Kind::kSlot && job.error.empty()) return;
    Link& link = links_[job.peer];
    if (link.lost) return;
    if (!job.error.empty()) return lost_.emplace_back(job.peer, job.error), void();
    if (job.kind == MpiJob::Kind::kPutOut) {
      --link.out[job.number - link.reported];
      return;
    }
    const auto it = link.in.find(job.number);
    if (it == link.in.end() || --it->second.pieces > 0) return;
    const InPut put = it->second;
    link.in.erase(it);
    if (sink != nullptr) arrived(job.peer, put, *sink);
  }

  void arrived(Rank from, const InPut& put, EventSink& sink) {
    ++counters_.puts_arrived;
    sink.on_put_arrived(from, put.notify, put.bytes);
  }

  void report_puts(Rank peer, EventSink& sink, int& events) {
    Link& link = links_[peer];
    uint64_t done = 0;
    while (!link.out.empty() && link.out.front() == 0) {
      link.out.pop_front();
      ++done;
    }
    link.reported += done;
    if (done == 0 || link.lost) return;
    ++events;
    sink.on_puts_completed(peer, done);
  }

  // ---- what has come

  // The oldest posted receive; -1: nothing is there, else the number of events.
  int take(EventSink& sink) {
    Receive& receive = ring_[next_];
    int done = 0;
    MPI_Status status;
    const int code = MPI_Test(&receive.request, &done, &status);
    if (code != MPI_SUCCESS) fail_runtime("MPI_Test: {}", mpi_error_text(code));
    if (done == 0) return -1;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    MpiHeader header;
    int events = 0;
    if (bytes >= static_cast<int>(sizeof(header))) {
      std::memcpy(&header, receive.buffer->data(), sizeof(header));
      const auto rest = std::span<const std::byte>(*receive.buffer)
                            .subspan(sizeof(header), bytes - sizeof(header));
      events = handle(status.MPI_SOURCE, header, rest, sink);
    }
    post(receive);
    next_ = (next_ + 1) % kReceives;
    return events;
  }

  int handle(int source, const MpiHeader& header, std::span<const std::byte> rest,
             EventSink& sink) {
    const auto it = peer_of_.find(source);
    if (header.kind == HeaderKind::kHello) return greet(source, header, rest, sink);
    if (it == peer_of_.end()) return 0;
    const Rank peer = it->second;
    Link& link = links_[peer];
    if (link.lost || !link.greeted || link.incarnation != header.incarnation) return 0;
    link.credits += header.credits;
    switch (header.kind) {
      case HeaderKind::kMessage:
        ++link.owed;
        ++counters_.messages_received;
        sink.on_message(peer, rest);
        return 1;
      case HeaderKind::kPut:
        ++link.owed;
        return expect(peer, header, sink);
      case HeaderKind::kCredit:
        return 0;
      case HeaderKind::kBye:
        return lose(peer, "it closed the link", sink, true);
      default:
        return lose(peer, "it sent a header of no known kind", sink);
    }
  }

  int greet_early(EventSink& sink) {
    int events = 0;
    for (auto it = early_.begin(); it != early_.end();) {
      const auto [source, greeting] = *it;
      if (!peer_of_.contains(source)) {
        ++it;
        continue;
      }
      it = early_.erase(it);
      events += greet(source, greeting.first, std::as_bytes(std::span(greeting.second)), sink);
    }
    return events;
  }

  // A greeting may come before our own connect(): kept till then.
  int greet(int source, const MpiHeader& header, std::span<const std::byte> rest, EventSink& sink) {
    const std::string token(reinterpret_cast<const char*>(rest.data()), rest.size());
    const auto it = peer_of_.find(source);
    if (it == peer_of_.end()) {
      early_[source] = {header, token};
      return 0;
    }
    const Rank peer = it->second;
    Link& link = links_[peer];
    if (link.lost || link.greeted) return 0;
    if (token != config_.token) return lose(peer, "it does not know the token of this run", sink);
    if (header.incarnation != link.incarnation) return lose(peer, "it is another process", sink);
    link.greeted = link.up = true;
    sink.on_connected(peer);
    return 1;
  }

  int expect(Rank peer, const MpiHeader& header, EventSink& sink) {
    Link& link = links_[peer];
    InPut put{0, header.notify, header.bytes};
    if (header.bytes == 0) {
      arrived(peer, put, sink);
      return 1;
    }
    const auto block = regions_->blocks.find(header.key);
    if (block == regions_->blocks.end() || header.offset > block->second.bytes ||
        header.bytes > block->second.bytes - header.offset) {
      return lose(peer, "it put outside of the memory offered to it", sink);
    }
    const uint64_t number = link.next_in++;
    for (uint64_t done = 0; done < header.bytes; done += kPiece) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int code = MPI_Irecv(block->second.data + header.offset + done,
                                 static_cast<int>(std::min(kPiece, header.bytes - done)), MPI_BYTE,
                                 link.mpi_rank, kDataTag, MPI_COMM_WORLD, &request);
      if (code != MPI_SUCCESS) return lose(peer, "MPI_Irecv: " + mpi_error_text(code), sink);
      ++put.pieces;
      requests_.add(request, {MpiJob::Kind::kPutIn, 0, peer, number, ""});
    }
    link.in[number] = put;
    return 0;
  }

  // ---- ends

  int lose(Rank peer, const std::string& why, EventSink& sink, bool orderly = false) {
    Link& link = links_[peer];
    if (link.lost) return 0;
    if (!orderly) session_.note_loss();
    end(link);
    sink.on_peer_lost(peer, why);
    return 1;
  }

  void end(Link& link) {
    if (link.mpi_rank >= 0) requests_.cancel_receives(peer_of_[link.mpi_rank]);
    link.up = false;
    link.lost = true;
    link.out.clear();
    link.in.clear();
  }

  MpiSession& session_ = MpiSession::get();
  const TransportConfig config_;
  std::shared_ptr<MpiRegions> regions_ = std::make_shared<MpiRegions>();
  std::vector<Link> links_;      // by rank of the run
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

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const TransportConfig& config) {
  return std::make_unique<MpiTransport>(config);
}

}  // namespace kinet
