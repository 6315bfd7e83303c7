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

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) { low = std::min(low, v), high = std::max(high, v); }
  bool empty() const { return low > high; }
};

struct Axes {
  Range x_range, y_range;
  std::vector<double> x_ticks, y_ticks;
  double x(double v) const { return kLeft + share(v, x_range) * (kWidth - kLeft - kRight); }
  double y(double v) const {
    return kHeight - kBottom - share(v, y_range) * (kHeight - kTop - kBottom);
  }

 private:
  static double share(double v, const Range& range) {
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

std::string curve(const Axes& axes, const Series& series, const char* color) {
  std::string path, dots;
  for (const auto& [x, y] : thin(series.points)) {
    if (series.steps && !path.empty()) path += fmt::format("H{:.1f}", axes.x(x));
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", axes.x(x), axes.y(y));
    if (series.markers) {
      dots += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'><title>{}: {:.6g} at {}"
          "</title></circle>",
          axes.x(x), axes.y(y), color, escape_markup(series.name), y, tick_text(x));
    }
  }
  return fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='1.8'/>{}\n", path, color,
                     dots);
}

// Right-aligned above the plot, last series first; letters are taken to be 6.6 units wide.
std::string legend(const std::vector<Series>& series) {
  std::string out;
  double right = kWidth - kRight;
  for (size_t i = series.size(); i-- > 0;) {
    const double left = right - 6.6 * static_cast<double>(series[i].name.size());
    out += fmt::format("<text x='{:.1f}' y='20'>{}</text>", left, escape_markup(series[i].name));
    out += fmt::format("<rect x='{:.1f}' y='14' width='14' height='3' fill='{}'/>\n", left - 20,
                       kColors[i % std::size(kColors)]);
    right = left - 34;
  }
  return out;
}

// The y axis begins and ends at a tick; the x axis is as the chart says, else that of the data.
Axes make_axes(const Chart& chart) {
  Axes axes;
  Range& x = axes.x_range;
  Range& y = axes.y_range;
  for (const Series& series : chart.series) {
    for (const auto& point : series.points) {
      if (finite(point)) x.add(point.first), y.add(point.second);
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
  std::string out = fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>\n", kWidth,
                                kHeight, escape_markup(chart.title));
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
  for (size_t i = 0; i < chart.series.size(); ++i) {
    out += curve(axes, chart.series[i], kColors[i % std::size(kColors)]);
  }
  return out + legend(chart.series) + "</svg>\n";
}

}  // namespace kinet
