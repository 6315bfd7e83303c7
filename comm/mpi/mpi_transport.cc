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

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "src/base/check.h"

namespace kinet {

MpiTransport::MpiTransport(const TransportConfig& config)
    : config_(config), links_(config.size), slots_(kMpiSlots), ring_(kMpiReceives) {
  KINET_CHECK(session_.size() >= config.size,
              "transport mpi: mpirun started {} processes, the run has {} ranks", session_.size(),
              config.size);
  for (size_t i = 0; i < kMpiSlots; ++i) free_.push_back(kMpiSlots - 1 - i);
  for (Receive& receive : ring_) {
    receive.buffer = std::make_unique<MpiBuffer>();
    post(receive);
  }
}

MpiTransport::~MpiTransport() {
  if (std::uncaught_exceptions() > 0) session_.note_loss();  // an error ends this rank
  for (Rank r = 0; r < static_cast<Rank>(links_.size()); ++r) disconnect(r);
  const double until = now() + kMpiGoodbye;
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

std::unique_ptr<MemoryRegion> MpiTransport::register_memory(const MemoryBlock& block) {
  ++counters_.registrations;
  return std::make_unique<MpiRegion>(block, regions_);
}

void MpiTransport::connect(Rank peer, uint32_t incarnation, const std::string& offer) {
  MpiLink link;
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

void MpiTransport::disconnect(Rank peer) {
  MpiLink& link = links_[peer];
  if (link.mpi_rank >= 0 && !link.lost) {
    MpiHeader bye;
    bye.kind = HeaderKind::kBye;
    post(link, bye, {});
  }
  end(link);
}

Post MpiTransport::send(Rank peer, std::span<const std::byte> message) {
  KINET_DCHECK(message.size() <= kMaxMessage);
  MpiLink& link = links_[peer];
  if (link.lost) return Post::kPeerLost;
  if (!link.up || link.credits == 0 || free_.empty()) return busy();
  if (!post(link, MpiHeader{}, message)) return Post::kPeerLost;
  --link.credits;
  ++counters_.messages_sent;
  return Post::kAccepted;
}

Post MpiTransport::put(Rank peer, const Put& put) {
  check_put(put);
  MpiLink& link = links_[peer];
  if (link.lost) return Post::kPeerLost;
  if (!link.up || link.credits == 0 || free_.empty() || link.out.size() >= kMpiWindow)
    return busy();
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

Capabilities MpiTransport::capabilities() const {
  Capabilities c;
  c.survives_peer_loss = false;
  c.outstanding_puts = kMpiWindow;
  return c;
}

std::string MpiTransport::describe(Rank peer, bool verbose) const {
  std::string out = fmt::format("mpi: {}, rank {} of {} in MPI_COMM_WORLD", mpi_name(),
                                links_[peer].mpi_rank, session_.size());
  if (verbose) {
    out += fmt::format(", window {}, {} receives, pieces of {} bytes", kMpiWindow, kMpiReceives,
                       kMpiPiece);
  }
  return out;
}

int MpiTransport::parse_rank(const std::string& offer) const {
  int rank = -1;
  try {
    rank = std::stoi(offer);
  } catch (const std::exception&) {
    return -1;
  }
  return rank < session_.size() ? rank : -1;
}

Post MpiTransport::busy() {
  ++counters_.busy;
  return Post::kBusy;
}

void MpiTransport::post(Receive& receive) {
  check_mpi(MPI_Irecv(receive.buffer->data(), static_cast<int>(receive.buffer->size()), MPI_BYTE,
                      MPI_ANY_SOURCE, kMpiControlTag, MPI_COMM_WORLD, &receive.request),
            "MPI_Irecv");
}

bool MpiTransport::post(MpiLink& link, MpiHeader header, std::span<const std::byte> bytes) {
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
                             link.mpi_rank, kMpiControlTag, MPI_COMM_WORLD, &request);
  if (code != MPI_SUCCESS) {
    lost_.emplace_back(peer_of_[link.mpi_rank], "MPI_Isend: " + mpi_error_text(code));
    return false;
  }
  free_.pop_back();
  requests_.add(request, {MpiJob::Kind::kSlot, slot, peer_of_[link.mpi_rank], 0, ""});
  return true;
}

bool MpiTransport::post_bytes(Rank peer, const Put& put) {
  MpiLink& link = links_[peer];
  link.out.push_back(0);
  const uint64_t number = link.reported + link.out.size() - 1;
  for (uint64_t done = 0; done < put.bytes; done += kMpiPiece) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Isend(put.from->data() + put.from_offset + done,
                               static_cast<int>(std::min(kMpiPiece, put.bytes - done)), MPI_BYTE,
                               link.mpi_rank, kMpiDataTag, MPI_COMM_WORLD, &request);
    if (code != MPI_SUCCESS) {
      lost_.emplace_back(peer, "MPI_Isend: " + mpi_error_text(code));
      return false;
    }
    ++link.out.back();
    requests_.add(request, {MpiJob::Kind::kPutOut, 0, peer, number, ""});
  }
  return true;
}

std::unique_ptr<Transport> make_mpi_transport(const TransportConfig& config) {
  return std::make_unique<MpiTransport>(config);
}

}  // namespace kinet
