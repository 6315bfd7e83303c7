// Line charts as SVG text, for report.html: no script, no outside file.
//
// There are six colours; the series after them are dashed, those after twelve dotted.
// Points that are not finite are left out. Long series are thinned for the picture: of every bucket
// of neighbours the lowest and the highest point stay, so that no peak is lost.
// Thread safety: pure functions.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace kinet {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
  bool markers = false;                           // a dot at every point: for few points
  bool steps = false;                             // a value holds until the next point
  std::vector<std::array<double, 3>> band{};      // x, low, high: shaded behind the line
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool from_zero = false;        // the y axis begins at 0
  double x_low = 0, x_high = 0;  // range of the x axis; equal: that of the points
  bool legend_below = false;     // in rows below the plot, for many series
};

// Ticks at 1, 2 or 5 times a power of ten that cover [low, high]; about `wanted` of them.
std::vector<double> nice_ticks(double low, double high, int wanted);

// Text that stands for itself in HTML and SVG.
std::string escape_markup(const std::string& text);

// An <svg> element; a chart without points says "no data yet".
std::string svg_chart(const Chart& chart);

}  // namespace kinet
