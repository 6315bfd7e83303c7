#include "src/solver/html_page.h"

#include <fmt/format.h>

#include "src/solver/chart.h"

namespace kinet {
namespace {

constexpr const char* kStyle = R"(
body{font:15px/1.5 system-ui,sans-serif;color:#1d2939;background:#f7f8fa;margin:0}
main{max-width:860px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;margin:0}h2{font-size:16px;margin:34px 0 10px}
.sub{color:#667085;margin:2px 0 20px}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin-bottom:20px}
.tile{background:#fff;border:1px solid #e4e7ec;border-radius:8px;padding:10px 16px;min-width:110px}
.tile b{display:block;font-size:21px;font-weight:600}.tile span{color:#667085;font-size:13px}
figure{background:#fff;border:1px solid #e4e7ec;border-radius:8px;margin:0 0 16px;padding:12px}
svg{width:100%;height:auto;display:block;font-size:12px}
svg text{fill:#475467}svg .title{font-weight:600;font-size:14px;fill:#1d2939}
svg .grid{stroke:#eaecf0}svg .axis{stroke:#98a2b3}
table{border-collapse:collapse;background:#fff;border:1px solid #e4e7ec;width:100%}
td,th{text-align:left;padding:5px 12px;border-top:1px solid #f0f2f5;vertical-align:top}
td:first-child{color:#667085;width:34%}
details{background:#fff;border:1px solid #e4e7ec;border-radius:8px;margin:8px 0;padding:8px 14px}
summary{cursor:pointer}pre{overflow-x:auto;font-size:12.5px;line-height:1.4}
footer{color:#98a2b3;font-size:13px;margin-top:30px}
)";

}  // namespace

std::string html_page(const PageHead& head, const std::string& body) {
  const std::string title = escape_markup(head.title);
  std::string out = "<!DOCTYPE html>\n<html lang='en'>\n<meta charset='utf-8'>\n";
  out += "<meta name='viewport' content='width=device-width, initial-scale=1'>\n";
  out += fmt::format("<title>{} – kinet</title>\n<style>{}</style>\n<main>\n", title, kStyle);
  out += fmt::format("<h1>{}</h1>\n<p class='sub'>{}</p>\n{}", title, escape_markup(head.subtitle),
                     body);
  return out + fmt::format("<footer>{}</footer>\n</main>\n</html>\n", escape_markup(head.build));
}

std::string html_files(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out;
  if (!files.empty()) out += "<h2>Files</h2>\n";
  for (const auto& [name, text] : files) {
    out += fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                       escape_markup(name), escape_markup(text));
  }
  return out;
}

}  // namespace kinet
