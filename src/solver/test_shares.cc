// A test by all workers: each scores its share of the batches, the sums go to everybody, and
// everybody adds them up in the order of the workers. So all have the same record, bit for bit, and
// decide alike; that of one worker alone differs by the rounding of doubles.
//
// A wish to stop is part of what a worker says: the others see it between two batches, then the
// test is as if it had not begun, and all stop.
#include "src/base/check.h"
#include "src/solver/solver_impl.h"

namespace kinet {

std::vector<TestRecord> Solver::Impl::test_together(SolverControl& control) {
  if (tests.empty()) return {};
  const double start = now();
  const Bsp::TestSay mine = score_shares(control);
  std::vector<Bsp::TestSay> all;
  try {
    exchange_broken = !bsp->share_test(mine, &control.stop_now, all);
  } catch (const Error& error) {
    exchange_broken = true;
    if (!control.stop_now) stop_for_loss(error);
  }
  stop_agreed = exchange_broken;
  for (const Bsp::TestSay& say : all) {
    stop_agreed = stop_agreed || say.stop || say.stop_now;
    if (say.stop_now) control.stop_now = true;
  }
  if (stop_agreed) return {};
  std::vector<TestRecord> records = merge_shares(all);
  const double seconds = (now() - start) / static_cast<double>(records.size());
  for (TestRecord& r : records) r.seconds = seconds;
  return records;
}

Bsp::TestSay Solver::Impl::score_shares(const SolverControl& control) {
  Bsp::TestSay say;
  const auto own_wish = [&control] { return control.stop || control.stop_now; };
  const auto stop = [&] { return own_wish() || bsp->others_stop_test(); };
  const TestShare share{options.worker, options.workers};
  for (size_t i = 0; i < tests.size() && !stop(); ++i) {
    const auto sums = score_share(*tests[i], test_plan(i), share, context(Phase::kTest, 0), stop);
    if (!sums) break;
    sums->pack(say.sums);
  }
  say.stop = control.stop;
  say.stop_now = control.stop_now;
  return say;
}

std::vector<TestRecord> Solver::Impl::merge_shares(const std::vector<Bsp::TestSay>& all) const {
  std::vector<std::span<const double>> rest;
  for (const Bsp::TestSay& say : all) rest.emplace_back(say.sums);
  std::vector<TestRecord> records;
  for (size_t i = 0; i < tests.size(); ++i) {
    TestSums sums;
    for (std::span<const double>& numbers : rest) sums.merge(TestSums::unpack(numbers));
    records.push_back(make_test_record(*tests[i], test_plan(i), sums));
  }
  return records;
}

}  // namespace kinet
