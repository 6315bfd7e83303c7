// Axes with round ticks, a grid, one path a series, a legend.
#include "src/solver/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/text.h"

namespace kinet {
namespace {

using Points = std::vector<std::pair<double, double>>;

// The picture, in SVG units; it scales to the width of the page.
constexpr double kWidth = 760, kHeight = 300;
constexpr double kLeft = 92, kRight = 16, kTop = 38, kBottom = 44;
constexpr size_t kBuckets = 700;  // about one for each unit of width
constexpr const char* kColors[] = {"#2563eb", "#dc6803", "#067647",
                                   "#7a5af8", "#c11574", "#475467"};
constexpr const char* kDashes[] = {"", "7 4", "2 3"};
constexpr double kLegendRow = 18;  // height of a row of a legend below the plot
constexpr double kLetter = 6.6;    // width that a letter is taken to have

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) { low = std::min(low, v), high = std::max(high, v); }
  bool empty() const { return low > high; }
};

struct Axes {
  Extent x_range, y_range;
  std::vector<double> x_ticks, y_ticks;
  double x(double v) const { return kLeft + share(v, x_range) * (kWidth - kLeft - kRight); }
  double y(double v) const {
    return kHeight - kBottom - share(v, y_range) * (kHeight - kTop - kBottom);
  }

 private:
  static double share(double v, const Extent& range) {
    return (v - range.low) / (range.high - range.low);
  }
};

bool finite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

Points thin(const Points& points) {
  Points good;
  std::copy_if(points.begin(), points.end(), std::back_inserter(good), finite);
  if (good.size() <= 2 * kBuckets) return good;
  Points out;
  const auto by_y = [](const auto& a, const auto& b) { return a.second < b.second; };
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto begin = good.begin() + good.size() * bucket / kBuckets;
    const auto end = good.begin() + good.size() * (bucket + 1) / kBuckets;
    auto [low, high] = std::minmax_element(begin, end, by_y);
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (low != high) out.push_back(*high);
  }
  return out;
}

std::string tick_text(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? with_commas(static_cast<int64_t>(value)) : fmt::format("{:.6g}", value);
}

std::string grid(const Axes& axes) {
  std::string out;
  for (const double tick : axes.y_ticks) {
    const double y = axes.y(tick);
    out += fmt::format("<line class='grid' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/>", kLeft,
                       kWidth - kRight, y, y);
    out += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n", kLeft - 8, y + 4,
                       tick_text(tick));
  }
  for (const double tick : axes.x_ticks) {
    const double x = axes.x(tick), y = kHeight - kBottom;
    out +=
        fmt::format("<line class='axis' x1='{:.1f}' x2='{:.1f}' y1='{}' y2='{}'/>", x, x, y, y + 5);
    out += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", x, y + 18,
                       tick_text(tick));
  }
  out += fmt::format("<line class='axis' x1='{}' x2='{}' y1='{}' y2='{}'/>\n", kLeft,
                     kWidth - kRight, kHeight - kBottom, kHeight - kBottom);
  return out;
}

const char* color_of(size_t index) { return kColors[index % std::size(kColors)]; }

// stroke='...' and, beyond the colours, a dash.
std::string stroke(size_t index) {
  const size_t dash = std::min(index / std::size(kColors), std::size(kDashes) - 1);
  std::string out = fmt::format("stroke='{}'", color_of(index));
  if (dash > 0) out += fmt::format(" stroke-dasharray='{}'", kDashes[dash]);
  return out;
}

// There along the upper edge, back along the lower one.
std::string band(const Axes& axes, const Series& series, size_t index) {
  std::string there, back;
  for (const auto& [x, low, high] : series.band) {
    if (!std::isfinite(x) || !std::isfinite(low) || !std::isfinite(high)) continue;
    there += fmt::format("{}{:.1f} {:.1f}", there.empty() ? "M" : "L", axes.x(x), axes.y(high));
    back = fmt::format("L{:.1f} {:.1f}", axes.x(x), axes.y(low)) + back;
  }
  if (there.empty()) return "";
  return fmt::format("<path d='{}{}Z' fill='{}' fill-opacity='0.13'/>\n", there, back,
                     color_of(index));
}

std::string curve(const Axes& axes, const Series& series, size_t index) {
  std::string path, dots;
  for (const auto& [x, y] : thin(series.points)) {
    if (series.steps && !path.empty()) path += fmt::format("H{:.1f}", axes.x(x));
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", axes.x(x), axes.y(y));
    if (series.markers) {
      dots += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'><title>{}: {:.6g} at {}"
          "</title></circle>",
          axes.x(x), axes.y(y), color_of(index), escape_markup(series.name), y, tick_text(x));
    }
  }
  return fmt::format("<path d='{}' fill='none' {} stroke-width='1.8'/>{}\n", path, stroke(index),
                     dots);
}

std::string legend_entry(const std::string& name, size_t index, double left, double baseline) {
  return fmt::format(
      "<line x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}' {} stroke-width='3'/>"
      "<text x='{:.1f}' y='{:.1f}'>{}</text>\n",
      left - 20, left - 6, baseline - 4.5, baseline - 4.5, stroke(index), left, baseline,
      escape_markup(name));
}

// Right-aligned above the plot, last series first.
std::string legend(const std::vector<Series>& series) {
  std::string out;
  double right = kWidth - kRight;
  for (size_t i = series.size(); i-- > 0;) {
    const double left = right - kLetter * text_columns(series[i].name);
    out += legend_entry(series[i].name, i, left, 20);
    right = left - 34;
  }
  return out;
}

// From left to right in rows below the plot; their number goes to `rows`.
std::string legend_below(const std::vector<Series>& series, int& rows) {
  std::string out;
  double left = kLeft + 20;
  rows = series.empty() ? 0 : 1;
  for (size_t i = 0; i < series.size(); ++i) {
    const double width = kLetter * text_columns(series[i].name);
    if (left + width > kWidth && left > kLeft + 20) left = kLeft + 20, ++rows;
    out += legend_entry(series[i].name, i, left, kHeight + kLegendRow * (rows - 0.3));
    left += width + 34;
  }
  return out;
}

// The y axis begins and ends at a tick; the x axis is as the chart says, else that of the data.
Axes make_axes(const Chart& chart) {
  Axes axes;
  Extent& x = axes.x_range;
  Extent& y = axes.y_range;
  for (const Series& series : chart.series) {
    for (const auto& point : series.points) {
      if (finite(point)) x.add(point.first), y.add(point.second);
    }
    for (const auto& [at, low, high] : series.band) {
      if (std::isfinite(at + low + high)) x.add(at), y.add(low), y.add(high);
    }
  }
  if (x.empty()) return axes;
  if (chart.x_high > chart.x_low) x = {chart.x_low, chart.x_high};
  if (x.low == x.high) x.low -= 1, x.high += 1;
  if (chart.from_zero) y.add(0);
  axes.x_ticks = nice_ticks(x.low, x.high, 8);
  std::erase_if(axes.x_ticks, [&x](double tick) { return tick < x.low || tick > x.high; });
  axes.y_ticks = nice_ticks(y.low, y.high, 5);
  y = {axes.y_ticks.front(), axes.y_ticks.back()};
  return axes;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int wanted) {
  if (!(high > low)) {  // one value: a span of its own size around it
    const double half = low == 0 ? 1 : std::abs(low) / 2;
    low -= half, high += half;
  }
  const double raw = (high - low) / std::max(wanted, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= raw * (1 - 1e-9)) step = factor * power;
  }
  std::vector<double> ticks;
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string escape_markup(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string svg_chart(const Chart& chart) {
  int rows = 0;
  const std::string below = chart.legend_below ? legend_below(chart.series, rows) : "";
  std::string out =
      fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>\n", kWidth,
                  kHeight + kLegendRow * (rows + (rows > 0 ? 0.3 : 0)), escape_markup(chart.title));
  out +=
      fmt::format("<text class='title' x='{}' y='20'>{}</text>\n", 8, escape_markup(chart.title));
  const Axes axes = make_axes(chart);
  if (axes.x_range.empty()) {
    out += fmt::format("<text x='{}' y='{}' text-anchor='middle'>no data yet</text>\n", kWidth / 2,
                       kHeight / 2);
    return out + "</svg>\n";
  }
  out += grid(axes);
  out += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, escape_markup(chart.x_label));
  out +=
      fmt::format("<text transform='translate(14 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                  (kTop + kHeight - kBottom) / 2, escape_markup(chart.y_label));
  for (size_t i = 0; i < chart.series.size(); ++i) out += band(axes, chart.series[i], i);
  for (size_t i = 0; i < chart.series.size(); ++i) out += curve(axes, chart.series[i], i);
  return out + (chart.legend_below ? below : legend(chart.series)) + "</svg>\n";
}

}  // namespace kinet
