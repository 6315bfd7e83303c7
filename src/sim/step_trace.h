// Recorded step times: a text file with a line for each gradient.
//
//   # comment
//   worker,seconds          a head, which may be missing
//   0,0.0123                comma, blanks or both between the two
//   1,0.0150
// Lines of a worker stand in the order of its gradients; those of several workers may be mixed.
// Workers may have any numbers: what a run calls worker w are the lines of the w-th of them.
// Thread safety: const after read().
#pragma once

#include <string>
#include <vector>

namespace kinet {

struct StepTrace {
  std::string path;
  std::vector<std::vector<double>> by_worker;  // seconds; at least one worker, none without times

  size_t times() const;
  double mean() const;
  // Throws Error with every faulty line.
  static StepTrace read(const std::string& path);
};

}  // namespace kinet
