// Every command but train, on small files.
// ctest: labels=integration timeout=300
#include <nlohmann/json.hpp>

#include "src/base/build_info.h"
#include "src/cli/command.h"
#include "src/net/deploy.h"
#include "tests/cli_fixture.h"

namespace kinet {
namespace {

class CliCommands : public CliTest {
 protected:
  std::string output_of(const std::vector<std::string>& arguments) const {
    const ProcessResult r = kinet(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r.out;
  }
};

TEST_F(CliCommands, HelpListsEveryCommandWithAnExample) {
  const std::string help = output_of({});
  EXPECT_EQ(help, output_of({"--help"}));
  for (const std::string& name : CommandRegistry::instance().names()) {
    const CommandType& type = *CommandRegistry::instance().find(name);
    EXPECT_CONTAINS(help, type.help);
    EXPECT_CONTAINS(help, "$ " + type.example);
    EXPECT_EQ(type.example.rfind("kinet " + name, 0), 0u) << type.example;
  }
  EXPECT_CONTAINS(output_of({"train", "--help"}), "--resume");
  EXPECT_EQ(output_of({"help", "train"}), output_of({"train", "--help"}));
  EXPECT_CONTAINS(output_of({"convert"}), "convert deploy");
}

TEST_F(CliCommands, VersionNamesBuildAndKernels) {
  const std::string version = output_of({"--version"});
  EXPECT_CONTAINS(version, std::string("kinet ") + std::string(build_info().version));
  EXPECT_CONTAINS(version, "OpenBLAS");
  EXPECT_CONTAINS(version, "vector kernels: ");
}

TEST_F(CliCommands, DevicesTellsWhatThereIs) {
  const std::string devices = output_of({"devices"});
  for (const char* part : {"CPU ", "cores ", "kernels ", "OpenBLAS", "memory ", "GPU "}) {
    EXPECT_CONTAINS(devices, part);
  }
}

TEST_F(CliCommands, CheckShowsTheTableAndTheData) {
  const std::string text = output_of({"check", "solver.prototxt"});
  for (const char* part : {"Train net 'tiny'", "Test net #0 'tiny'", "InnerProduct", "4x10", "370",
                           "all 20 labels lie in [0, 10), as 'loss' asks",
                           "Snapshots: runs/tiny-<date>-<time>/solver_iter_N.caffemodel",
                           "5 iterations an epoch", "each of the 20 items once", "No errors."}) {
    EXPECT_CONTAINS(text, part);
  }
  EXPECT_CONTAINS(output_of({"check", "net.prototxt"}), "No errors.");
}

TEST_F(CliCommands, TestScoresEveryItemOnceWhateverTheBatch) {
  const std::string weights = trained_weights();
  const auto scores = [](const std::string& text) {
    return text.substr(text.find("    Test net"),
                       text.find("20 items") - text.find("    Test net"));
  };
  const std::string whole = output_of({"test", "net.prototxt", "--weights", weights});
  EXPECT_CONTAINS(whole, "loaded 1 of 1 layers");
  EXPECT_CONTAINS(whole, "Test net output #0: accuracy = ");
  EXPECT_CONTAINS(whole, "20 items of 20 scored");
  std::string net = kTinyNet;
  net.replace(net.find("batch_size: 4"), 13, "batch_size: 7");
  folder_.write("seven.prototxt", net);
  EXPECT_EQ(scores(output_of({"test", "seven.prototxt", "--weights", weights})), scores(whole));
  EXPECT_EQ(scores(output_of({"test", "solver.prototxt", "--weights", weights})), scores(whole));
  EXPECT_CONTAINS(output_of({"test", "net.prototxt", "--weights", weights, "--iterations", "2"}),
                  "8 items of 20 scored");
}

TEST_F(CliCommands, TimeHasARowForEachLayerAndTotals) {
  const std::string table = output_of({"time", "net.prototxt", "--iterations", "2"});
  for (const char* part : {"data ", "ip ", "loss ", "Average Forward pass: ",
                           "Average Backward pass: ", "Average Forward-Backward: ", "images/s"}) {
    EXPECT_CONTAINS(table, part);
  }
  const auto json = nlohmann::json::parse(
      output_of({"time", "net.prototxt", "--iterations", "2", "--json", "--phase", "TEST"}));
  EXPECT_EQ(json.at("phase"), "TEST");
  EXPECT_EQ(json.at("batch"), 4);
  EXPECT_GT(json.at("forward_ms").get<double>(), 0.0);
  EXPECT_EQ(json.at("layers").back().at("type"), "SoftmaxWithLoss");
}

// The class that test counts as right for item 3 must be the one classify names.
TEST_F(CliCommands, ClassifyWorksOnTheTrainingNetAndOnTheDeployNet) {
  const std::string weights = trained_weights();
  folder_.write("names.txt", "zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n");
  const std::vector<std::string> rest{
      "--weights", weights, "images-idx3:2-4", "--labels", "names.txt", "--top", "3"};
  std::vector<std::string> arguments{"classify", "net.prototxt"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  const std::string direct = output_of(arguments);
  for (const char* part : {"images-idx3:2\n", "images-idx3:3\n", "images-idx3:4\n"}) {
    EXPECT_CONTAINS(direct, part);
  }
  output_of({"convert", "deploy", "net.prototxt", "deploy.prototxt"});
  arguments[1] = "deploy.prototxt";
  arguments.insert(arguments.end(), {"--scale", "0.05"});
  EXPECT_EQ(output_of(arguments), direct);
}

TEST_F(CliCommands, DeployNetHasNeitherDataNorLossNorTrainingFields) {
  output_of({"convert", "deploy", "net.prototxt", "deploy.prototxt", "--batch", "2"});
  const std::string text = read_file(folder_ / "deploy.prototxt");
  for (const char* part :
       {"type: \"Input\"", "dim: 2", "dim: 6", "type: \"Softmax\"", "top: \"prob\""}) {
    EXPECT_CONTAINS(text, part);
  }
  for (const char* part : {"MnistData", "label", "Loss", "Accuracy", "filler", "include"}) {
    EXPECT_EQ(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

// Two losses on the way and a layer of training alone: what is left leads to the main output.
TEST(Deploy, KeepsOnlyWhatTheMainOutputNeeds) {
  Diagnostics diagnostics;
  const ParamNode net = prepare_net(parse_prototxt(R"(
    layer { name: "data" type: "DummyData" top: "data" top: "label"
            dummy_data_param { shape { dim: 2 dim: 8 } shape { dim: 2 } } }
    layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" lr_mult: 2 }
            inner_product_param { num_output: 4 } }
    layer { name: "aux" type: "InnerProduct" bottom: "a" top: "aux" inner_product_param { num_output: 3 } }
    layer { name: "aux_loss" type: "SoftmaxWithLoss" bottom: "aux" bottom: "label" loss_weight: 0.3 }
    layer { name: "b" type: "ReLU" bottom: "a" top: "a" }
    layer { name: "c" type: "InnerProduct" bottom: "a" top: "c" inner_product_param { num_output: 3 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" }
    )",
                                                   "net", diagnostics));
  const ParamNode deploy = make_deploy_net(net, Shape{1, 8});
  std::vector<std::string> names;
  for (const ParamNode* layer : deploy.find_all("layer"))
    names.push_back(layer->find("name")->text);
  EXPECT_EQ(names, (std::vector<std::string>{"data", "a", "b", "c", "prob"}));
  EXPECT_NE(deploy.to_text().find("name: \"w\""), std::string::npos);  // shared parameters stay so
  EXPECT_EQ(deploy.to_text().find("lr_mult"), std::string::npos);
}

TEST_F(CliCommands, ClassifyTellsOnceHowImagesAreChanged) {
  const std::string weights = trained_weights();
  const std::string small(12, 'a'), pixels(3 * 6 * 6, 'b');
  folder_.write("small.ppm", "P6\n2 2\n255\n" + small);
  folder_.write("right.ppm", "P6\n6 6\n255\n" + pixels);
  const std::vector<std::string> head{"classify", "net.prototxt", "--weights", weights};
  std::vector<std::string> arguments = head;
  arguments.insert(arguments.end(), {"small.ppm", "right.ppm"});
  EXPECT_EQ(kinet(arguments).err,
            "note: small.ppm is made grey and resized from 2x2 to 6x6 (height x width), as the net "
            "reads images; others alike\n");
  folder_.write("grey.pgm", "P5\n6 6\n255\n" + pixels.substr(0, 36));
  arguments = head;
  arguments.emplace_back("grey.pgm");
  EXPECT_EQ(kinet(arguments).err, "");
}

// A deploy net does nothing to the pixels, so the file and the terminal say what has to be done.
TEST_F(CliCommands, DeployTellsWhatTheDataLayerDidToTheInput) {
  std::string net = kTinyNet;
  net.replace(net.find("scale: 0.05"), 11, "scale: 0.05 mean_value: 3.5 crop_size: 4");
  folder_.write("crop.prototxt", net);
  const std::string said = output_of({"convert", "deploy", "crop.prototxt", "deploy.prototxt"});
  const std::string text = read_file(folder_ / "deploy.prototxt");
  for (const char* part :
       {"subtract 3.5\n", "crop 4 x 4 from the centre\n", "multiply by 0.05\n"}) {
    EXPECT_CONTAINS(text, std::string("#   ") + part);
    EXPECT_CONTAINS(said, part);
  }
  EXPECT_CONTAINS(text, "# kinet classify does so with: --mean 3.5 --scale 0.05\n");
  EXPECT_CONTAINS(said, "--mean 3.5 --scale 0.05\n");
}

TEST_F(CliCommands, AShapeStandsForDataThatIsNotThere) {
  std::filesystem::remove(folder_ / "images-idx3");
  const std::string text = output_of({"check", "solver.prototxt", "--shape", "1,6,6"});
  for (const char* part : {"DummyData", "4x1x6x6", "370", "No errors."}) {
    EXPECT_CONTAINS(text, part);
  }
  EXPECT_CONTAINS(output_of({"check", "net.prototxt", "--shape", "3,6,6"}), "1,090");
  EXPECT_CONTAINS(output_of({"time", "net.prototxt", "--iterations", "1", "--shape", "1,6,6"}),
                  "4x10");
}

// Backward of the first layer makes one product, the weights'; of a later one two.
TEST_F(CliCommands, TimeCountsTheProductsThatBackwardMakes) {
  std::string net = kTinyNet;
  net.replace(net.find("layer {\n  name: \"accuracy\""), 0,
              "layer { name: \"ip2\" type: \"InnerProduct\" bottom: \"ip\" top: \"ip2\" "
              "inner_product_param { num_output: 10 } }\n");
  net.replace(net.rfind("bottom: \"ip\""), 12, "bottom: \"ip2\"");
  folder_.write("two.prototxt", net);
  const auto json =
      nlohmann::json::parse(output_of({"time", "two.prototxt", "--iterations", "4", "--json"}));
  int found = 0;
  for (const auto& layer : json.at("layers")) {
    const double macs = layer.at("macs"), backward = layer.at("backward_macs");
    if (layer.at("name") != "ip" && layer.at("name") != "ip2") continue;
    ++found;
    EXPECT_EQ(backward, layer.at("name") == "ip" ? macs : 2 * macs) << layer;
  }
  EXPECT_EQ(found, 2);
  EXPECT_NEAR(json.at("forward_ms").get<double>() + json.at("backward_ms").get<double>(),
              json.at("forward_backward_ms").get<double>(), 1e-9);
}

TEST_F(CliCommands, FieldsPageIsTheOneInDocs) {
  const std::string page = output_of({"fields"});
  EXPECT_TRUE(page == read_file(KINET_SOURCE_DIR "/docs/model_files.md"))
      << "docs/model_files.md is out of date; write it anew: kinet fields > docs/model_files.md";
  EXPECT_CONTAINS(output_of({"fields", "Convolution"}), "| `convolution_param.num_output` |");
  EXPECT_EQ(kinet({"fields", "Convolutoin"}).status, 2);
  EXPECT_CONTAINS(kinet({"fields", "Convolutoin"}).err, "did you mean 'Convolution'?");
  EXPECT_CONTAINS(kinet({"fields", "conv"}).err, "did you mean 'Convolution'");
}

}  // namespace
}  // namespace kinet
