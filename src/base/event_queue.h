// Things that happen at given times, in one order that never varies: by time, and at equal times
// in the order in which they were added (each event has a sequence number).
//
// Thread safety: none; its owner locks. Reference: the event list of discrete-event simulation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kinet {

template <class Event>
class EventQueue {
 public:
  void push(double time, Event event) {
    heap_.push_back({time, next_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  double next_time() const { return heap_.front().time; }  // REQUIRES: !empty()

  Event pop() {  // REQUIRES: !empty()
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = std::move(heap_.back().event);
    heap_.pop_back();
    return event;
  }

 private:
  struct Entry {
    double time = 0;  // seconds
    uint64_t number = 0;
    Event event;
  };
  static bool later(const Entry& a, const Entry& b) {
    if (a.time > b.time) return true;
    return !(a.time < b.time) && a.number > b.number;
  }

  std::vector<Entry> heap_;
  uint64_t next_ = 0;
};

}  // namespace kinet
