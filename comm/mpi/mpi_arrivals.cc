// Polling of the MPI transport: requests that have ended, headers and bytes that come in, the ends
// of links. Only here events are raised.
#include <algorithm>
#include <cstring>

#include "comm/mpi/mpi_transport.h"
#include "src/base/check.h"

namespace kinet {

int MpiTransport::poll(EventSink& sink) {
  int events = 0;
  for (const auto& [peer, why] : std::exchange(lost_, {})) events += lose(peer, why, sink);
  events += finish(&sink) + greet_early(sink);
  for (int i = 0; i < kMpiBurst; ++i) {
    const int taken = take(sink);
    if (taken < 0) break;
    events += taken;
  }
  for (Rank r = 0; r < static_cast<Rank>(links_.size()); ++r) {
    MpiLink& link = links_[r];
    report_puts(r, sink, events);
    if (link.up && link.owed >= kMpiWindow / 2) {
      MpiHeader credit;
      credit.kind = HeaderKind::kCredit;
      post(link, credit, {});
    }
  }
  return events;
}

int MpiTransport::finish(EventSink* sink) {
  const std::vector<MpiJob> finished = requests_.take_finished();
  for (const MpiJob& job : finished) finish(job, sink);
  return static_cast<int>(finished.size());
}

void MpiTransport::finish(const MpiJob& job, EventSink* sink) {
  if (job.kind == MpiJob::Kind::kSlot) free_.push_back(job.slot);
  if (job.kind == MpiJob::Kind::kSlot && job.error.empty()) return;
  MpiLink& link = links_[job.peer];
  if (link.lost) return;
  if (!job.error.empty()) return lost_.emplace_back(job.peer, job.error), void();
  if (job.kind == MpiJob::Kind::kPutOut) {
    --link.out[job.number - link.reported];
    return;
  }
  const auto it = link.in.find(job.number);
  if (it == link.in.end() || --it->second.pieces > 0) return;
  const MpiInPut put = it->second;
  link.in.erase(it);
  if (sink != nullptr) arrived(job.peer, put, *sink);
}

void MpiTransport::arrived(Rank from, const MpiInPut& put, EventSink& sink) {
  ++counters_.puts_arrived;
  sink.on_put_arrived(from, put.notify, put.bytes);
}

void MpiTransport::report_puts(Rank peer, EventSink& sink, int& events) {
  MpiLink& link = links_[peer];
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

// The oldest posted receive; -1: nothing is there, else the number of events.
int MpiTransport::take(EventSink& sink) {
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
    const auto rest =
        std::span<const std::byte>(*receive.buffer).subspan(sizeof(header), bytes - sizeof(header));
    events = handle(status.MPI_SOURCE, header, rest, sink);
  }
  post(receive);
  next_ = (next_ + 1) % kMpiReceives;
  return events;
}

int MpiTransport::handle(int source, const MpiHeader& header, std::span<const std::byte> rest,
                         EventSink& sink) {
  const auto it = peer_of_.find(source);
  if (header.kind == HeaderKind::kHello) return greet(source, header, rest, sink);
  if (it == peer_of_.end()) return 0;
  const Rank peer = it->second;
  MpiLink& link = links_[peer];
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

int MpiTransport::greet_early(EventSink& sink) {
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
int MpiTransport::greet(int source, const MpiHeader& header, std::span<const std::byte> rest,
                        EventSink& sink) {
  const std::string token(reinterpret_cast<const char*>(rest.data()), rest.size());
  const auto it = peer_of_.find(source);
  if (it == peer_of_.end()) {
    early_[source] = {header, token};
    return 0;
  }
  const Rank peer = it->second;
  MpiLink& link = links_[peer];
  if (link.lost || link.greeted) return 0;
  if (token != config_.token) return lose(peer, "it does not know the token of this run", sink);
  if (header.incarnation != link.incarnation) return lose(peer, "it is another process", sink);
  link.greeted = link.up = true;
  sink.on_connected(peer);
  return 1;
}

int MpiTransport::expect(Rank peer, const MpiHeader& header, EventSink& sink) {
  MpiLink& link = links_[peer];
  MpiInPut put{0, header.notify, header.bytes};
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
  for (uint64_t done = 0; done < header.bytes; done += kMpiPiece) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Irecv(block->second.data + header.offset + done,
                               static_cast<int>(std::min(kMpiPiece, header.bytes - done)), MPI_BYTE,
                               link.mpi_rank, kMpiDataTag, MPI_COMM_WORLD, &request);
    if (code != MPI_SUCCESS) return lose(peer, "MPI_Irecv: " + mpi_error_text(code), sink);
    ++put.pieces;
    requests_.add(request, {MpiJob::Kind::kPutIn, 0, peer, number, ""});
  }
  link.in[number] = put;
  return 0;
}

int MpiTransport::lose(Rank peer, const std::string& why, EventSink& sink, bool orderly) {
  MpiLink& link = links_[peer];
  if (link.lost) return 0;
  if (!orderly) session_.note_loss();
  end(link);
  sink.on_peer_lost(peer, why);
  return 1;
}

void MpiTransport::end(MpiLink& link) {
  if (link.mpi_rank >= 0) requests_.cancel_receives(peer_of_[link.mpi_rank]);
  link.up = false;
  link.lost = true;
  link.out.clear();
  link.in.clear();
}

}  // namespace kinet
