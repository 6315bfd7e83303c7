// What N ranks print, as one text for a person.
//
//   rank 0, stdout     as it is, at once
//   others, stdout     warnings only; with `verbose` all, each behind "[rank 2] "
//   stderr             lines that several ranks print within kHold are printed once, behind
//                      "[ranks 0, 2-3] ", at once when all have said it; of rank 0 alone as it is
// Thread safety: none.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "comm/transport.h"

namespace kinet {

using TextSink = std::function<void(const std::string& text)>;  // lines with their ends

class LineMerger {
 public:
  static constexpr double kHold = 1;  // seconds that a line waits for its like

  LineMerger(int ranks, bool verbose, TextSink out, TextSink err);

  enum class Stream { kOut, kErr };
  // Bytes as they come, of any length.
  void add(Rank rank, Stream stream, const std::string& bytes, double now);
  // The process of a rank has ended: what it left unfinished is a line.
  void end(Rank rank, double now);
  // From now on a line waits so long: when ranks are ending, their last words come together.
  void set_hold(double seconds) { hold_ = seconds; }
  void release(double now);     // prints what has waited long enough
  double next_release() const;  // infinity when nothing waits
  void finish();                // prints all

 private:
  struct Held {
    std::string line;
    std::set<Rank> ranks;
    double since = 0;
  };
  void take_line(Rank rank, Stream stream, const std::string& line, double now);
  void hold(Rank rank, const std::string& line, double now);
  void print(const Held& held);

  const int ranks_;
  const bool verbose_;
  const TextSink out_, err_;
  std::map<std::pair<Rank, Stream>, std::string> unfinished_;
  std::deque<Held> held_;  // oldest first
  double hold_ = kHold;
};

// "[rank 2] ", "[ranks 0, 2-3] ", "[all 4 ranks] ".
std::string ranks_prefix(const std::set<Rank>& ranks, int size);

}  // namespace kinet
