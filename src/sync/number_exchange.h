// A vector of numbers of every rank to every rank, by messages: for the few numbers that ranks have
// to agree on now and then, of a length that nobody knows beforehand (Collectives work on floats in
// memory of fixed size).
//
//   exchange.begin(mine);                 // all ranks, as often as each other
//   ... exchange.any(...) looks at what has come so far ...
//   all = exchange.finish(timeout, "the sums of the test");   // by rank
//
// A message holds a header and a part of the vector:  round, length, offset, 0 | doubles
// A rank that is through with a round may be one ahead: its numbers are kept by round.
// Thread safety: begin and finish on one thread; messages are taken on whichever thread polls.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace kinet {

class NumberExchange {
 public:
  using Numbers = std::vector<double>;

  NumberExchange(Communicator& comm, uint8_t kind);
  ~NumberExchange();
  NumberExchange(const NumberExchange&) = delete;
  NumberExchange& operator=(const NumberExchange&) = delete;

  void begin(std::span<const double> mine);
  // Polls; whether the numbers of some other rank for the round to come (or under way) are here and
  // satisfy `wanted`.
  bool any(const std::function<bool(const Numbers&)>& wanted);
  // The numbers of all, by rank; none when `interrupted` (may be null) was set while waiting, and
  // then the object is of no further use. Throws a run-time Error that names a rank that is gone
  // without having said its numbers, or at a time-out.
  std::vector<Numbers> finish(double timeout, const std::string& what,
                              const std::atomic<bool>* interrupted);

 private:
  struct Part {
    Numbers numbers;
    size_t missing = 0;
    bool begun = false;
    bool complete() const { return begun && missing == 0; }
  };
  std::vector<Part>& round(uint32_t number);
  void take(Rank from, std::span<const std::byte> payload);
  bool all_here();  // throws the Error of a loss

  Communicator& comm_;
  const uint8_t kind_;
  uint32_t round_ = 0;                         // the next to begin, or under way
  std::map<uint32_t, std::vector<Part>> got_;  // by round and rank
};

}  // namespace kinet
