// What the MPI transport is made of: the header on the wire, registered memory, requests under way.
// Thread safety: none.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mpi/mpi_session.h"
#include "comm/transport.h"
#include "src/base/check.h"

namespace kinet {

enum class HeaderKind : uint32_t { kHello, kMessage, kPut, kCredit, kBye };

struct MpiHeader {
  HeaderKind kind = HeaderKind::kMessage;
  uint32_t credits = 0;      // given back to the receiver of this header
  uint32_t incarnation = 0;  // of the sender
  uint32_t notify = 0;
  uint64_t key = 0, offset = 0, bytes = 0;  // of a put; bytes: also of what follows the header
};

using MpiBuffer = std::array<std::byte, sizeof(MpiHeader) + kMaxMessage>;

struct MpiRegions {
  std::map<uint64_t, MemoryBlock> blocks;
  uint64_t last_key = 0;
};

class MpiRegion : public MemoryRegion {
 public:
  MpiRegion(const MemoryBlock& block, std::shared_ptr<MpiRegions> regions)
      : MemoryRegion(block), regions_(std::move(regions)), key_(++regions_->last_key) {
    regions_->blocks[key_] = block;
  }
  ~MpiRegion() override { regions_->blocks.erase(key_); }
  RemoteRegion remote() const override { return {0, key_, bytes()}; }

 private:
  std::shared_ptr<MpiRegions> regions_;
  uint64_t key_;
};

// What a request under way is for.
struct MpiJob {
  enum class Kind { kSlot, kPutOut, kPutIn } kind = Kind::kSlot;
  size_t slot = 0;
  Rank peer = 0;
  uint64_t number = 0;  // of the put on its link
  std::string error;    // when it has ended badly
};

// Requests and their jobs: two arrays side by side, as MPI_Testsome wants them.
class MpiRequests {
 public:
  void add(MPI_Request request, const MpiJob& job) {
    requests_.push_back(request);
    jobs_.push_back(job);
  }
  bool empty() const { return jobs_.empty(); }
  const std::vector<MpiJob>& jobs() const { return jobs_; }

  std::vector<MpiJob> take_finished() {
    std::vector<MpiJob> out;
    if (requests_.empty()) return out;
    done_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  done_.data(), statuses_.data());
    const bool some_bad = code == MPI_ERR_IN_STATUS;
    if (code != MPI_SUCCESS && !some_bad) check_mpi(code, "MPI_Testsome");
    if (count == MPI_UNDEFINED) return out;
    for (int i = 0; i < count; ++i) {
      out.push_back(jobs_[done_[i]]);
      if (some_bad && statuses_[i].MPI_ERROR != MPI_SUCCESS) {
        out.back().error = mpi_error_text(statuses_[i].MPI_ERROR);
      }
    }
    std::sort(done_.begin(), done_.begin() + count, std::greater<>());
    for (int i = 0; i < count; ++i) remove(done_[i]);
    return out;
  }

  // Receives of a lost peer are taken back; MPI decides whether one has begun.
  void cancel_receives(Rank peer) {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].kind == MpiJob::Kind::kPutIn && jobs_[i].peer == peer) MPI_Cancel(&requests_[i]);
    }
  }

 private:
  void remove(size_t i) {
    std::swap(requests_[i], requests_.back());
    std::swap(jobs_[i], jobs_.back());
    requests_.pop_back();
    jobs_.pop_back();
  }

  std::vector<MPI_Request> requests_;
  std::vector<MpiJob> jobs_;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace kinet
