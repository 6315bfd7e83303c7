#include "src/sim/statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace kinet {
namespace {

// Student's t, 0.975, 1 to 30 degrees of freedom.
constexpr double kTable[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                             2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                             2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                             2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
constexpr double kNormal = 1.959964;

}  // namespace

Summary summarize(const std::vector<double>& values) {
  Summary out;
  out.count = static_cast<int>(values.size());
  if (values.empty()) return out;
  for (const double value : values) out.mean += value;
  out.mean /= out.count;
  double squares = 0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  if (out.count > 1) out.deviation = std::sqrt(squares / (out.count - 1));
  return out;
}

// Beyond the table: the first terms of the expansion around the normal distribution (Abramowitz and
// Stegun 26.7.5), right to four digits from 30 on.
double t_975(int freedom) {
  if (freedom <= static_cast<int>(std::size(kTable))) return kTable[std::max(freedom, 1) - 1];
  const double z = kNormal, n = freedom;
  const double g1 = (z * z * z + z) / 4;
  const double g2 = (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / 96;
  return z + g1 / n + g2 / (n * n);
}

std::optional<SpeedUp> speed_up(const std::vector<std::optional<double>>& theirs,
                                const std::vector<std::optional<double>>& ours) {
  std::vector<double> logs;
  for (size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i) {
    if (!theirs[i] || !ours[i] || !(*theirs[i] > 0) || !(*ours[i] > 0)) continue;
    logs.push_back(std::log(*theirs[i] / *ours[i]));
  }
  if (logs.empty()) return std::nullopt;
  const Summary d = summarize(logs);
  SpeedUp out;
  out.pairs = d.count;
  out.gain = std::expm1(d.mean);
  if (d.count < 2) return out;
  const double half = t_975(d.count - 1) * d.deviation / std::sqrt(d.count);
  out.has_interval = true;
  out.low = std::expm1(d.mean - half);
  out.high = std::expm1(d.mean + half);
  return out;
}

}  // namespace kinet
