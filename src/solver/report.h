// report.html: a run on one page, without anything from outside: final figures, curves of loss,
// test accuracy and learning rate over iterations, settings, and the files that made the run.
// Thread safety: pure function.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/solver/metrics.h"

namespace kinet {

struct ReportSource {
  std::string name;                                        // of the run: its folder
  std::string build;                                       // build_info_line()
  std::vector<std::pair<std::string, std::string>> files;  // name and text, shown folded
};

std::string render_report(const RunHistory& history, const ReportSource& source);

}  // namespace kinet
