// report.html of an experiment: the tables, and for every setting curves of the test figure against
// virtual time and against samples, mean and range over the seeds. Stands alone.
// Thread safety: pure function.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/sim/experiment_table.h"

namespace kinet {

// `files`: name and text, shown folded.
std::string experiment_report(const Experiment& experiment, const GridResult& grid,
                              const ExperimentTable& table,
                              const std::vector<std::pair<std::string, std::string>>& files);

// The mean of curves over `points` places, and the range around it, as far as all of them go;
// between the points of a curve a straight line. Empty when they have no place in common.
struct MeanCurve {
  std::vector<double> x, mean, low, high;
};
using CurvePoints = std::vector<std::pair<double, double>>;  // x ascending
MeanCurve mean_curve(const std::vector<CurvePoints>& curves, int points);

}  // namespace kinet
