// kinet fields: the reference of all fields of model and solver files.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/cli/command.h"
#include "src/cli/fields_page.h"

namespace kinet {
namespace {

class FieldsCommand : public Command {
 public:
  static CommandType describe() {
    return {"fields", "every field of solver and net files, or of one layer type",
            "kinet fields Convolution"};
  }

  void configure(CLI::App& app) override {
    app.add_option("SECTION", section_,
                   "solver, comm, net, layer, experiment, or a layer type; all when left out");
  }

  int run() override {
    const std::string text = section_.empty() ? fields_page() : fields_section(section_);
    std::fputs(text.c_str(), stdout);
    return 0;
  }

 private:
  std::string section_;
};
KINET_REGISTER_COMMAND(FieldsCommand);

}  // namespace
}  // namespace kinet
