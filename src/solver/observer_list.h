// Tells several observers what one would be told. The observers must outlive the list.
// Thread safety: none; the solver's thread calls.
#pragma once

#include <string>
#include <vector>

#include "src/solver/observer.h"

namespace kinet {

class ObserverList : public SolverObserver {
 public:
  void add(SolverObserver* observer) { observers_.push_back(observer); }

  void on_start(const StartRecord& r) override { each(&SolverObserver::on_start, r); }
  void on_iteration(int64_t i, double l) override { each(&SolverObserver::on_iteration, i, l); }
  void on_round(const RoundRecord& r) override { each(&SolverObserver::on_round, r); }
  void on_display(const DisplayRecord& r) override { each(&SolverObserver::on_display, r); }
  void on_test(const TestRecord& r) override { each(&SolverObserver::on_test, r); }
  void on_snapshot(int64_t i, const std::string& p) override {
    each(&SolverObserver::on_snapshot, i, p);
  }
  void on_note(const std::string& text) override { each(&SolverObserver::on_note, text); }
  void on_warning(const std::string& text) override { each(&SolverObserver::on_warning, text); }
  void on_finish(const FinishRecord& r) override { each(&SolverObserver::on_finish, r); }

 private:
  template <class Method, class... Args>
  void each(Method method, const Args&... args) {
    for (SolverObserver* observer : observers_) (observer->*method)(args...);
  }

  std::vector<SolverObserver*> observers_;
};

}  // namespace kinet
