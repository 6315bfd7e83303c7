// Wrong input: exit status 2, one clear message on stderr, nothing lost.
// ctest: labels=integration timeout=300
#include "tests/cli_fixture.h"

namespace kinet {
namespace {

class CliErrors : public CliTest {
 protected:
  // Status 2, and stderr begins with "kinet: " once.
  std::string error_of(const std::vector<std::string>& arguments, int status = 2) const {
    const ProcessResult r = kinet(arguments);
    EXPECT_EQ(r.status, status) << r.out << r.err;
    EXPECT_EQ(r.err.rfind("kinet: ", 0), 0u) << r.err;
    EXPECT_EQ(r.err.find("kinet: ", 1), std::string::npos) << r.err;
    EXPECT_EQ(r.err.find("terminate called"), std::string::npos) << r.err;
    return r.err;
  }
};

TEST_F(CliErrors, UnknownCommandsAndFlagsAreGuessed) {
  EXPECT_CONTAINS(error_of({"trian", "x"}), "did you mean 'train'?");
  EXPECT_CONTAINS(error_of({"convret"}), "did you mean 'convert'?");
  EXPECT_CONTAINS(error_of({"convert", "deplo", "x"}), "did you mean 'convert deploy'?");
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--wieghts", "x"}),
                  "did you mean '--weights'?");
  EXPECT_CONTAINS(error_of({"train", "--thread", "2"}), "did you mean '--threads'?");
  EXPECT_CONTAINS(error_of({"train", "a", "b"}), "'b' is one argument too many");
  EXPECT_CONTAINS(error_of({"train"}), "SOLVER is required");
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--threads", "two"}), "--threads");
}

TEST_F(CliErrors, EveryTypingErrorOfANetIsReportedWithItsPlace) {
  std::string net = kTinyNet;
  net += "layer { name: \"relu\" type: \"Relu\" bottom: \"ip\" top: \"r\" }\n";
  net.replace(net.find("num_output"), 10, "numoutput");
  folder_.write("net.prototxt", net);
  for (const char* command : {"train", "check"}) {
    const std::string error = error_of({command, "solver.prototxt"});
    EXPECT_CONTAINS(error, "did you mean 'ReLU'?");
    EXPECT_CONTAINS(error, "did you mean 'num_output'?");
    EXPECT_CONTAINS(error, "net.prototxt:9:25: layer 'ip'");
  }
}

TEST_F(CliErrors, MissingFilesAreNamed) {
  EXPECT_CONTAINS(error_of({"train", "nowhere.prototxt"}), "nowhere.prototxt: no such file");
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--resume", "x.solverstate"}),
                  "x.solverstate: no such file");
  EXPECT_CONTAINS(error_of({"test", "net.prototxt", "--weights", "x.caffemodel"}),
                  "x.caffemodel: no such file");
  EXPECT_CONTAINS(error_of({"test", "net.prototxt"}), "--weights is required");
  EXPECT_CONTAINS(error_of({"time", "."}), "is a folder");
}

TEST_F(CliErrors, WeightsAndStatesAreNotMixedUp) {
  trained_weights();
  const std::string as_state = error_of(
      {"train", "solver.prototxt", "--out", "b", "--resume", "run/solver_iter_3.caffemodel"});
  EXPECT_CONTAINS(as_state, "--weights");
  const std::string as_weights = error_of(
      {"train", "solver.prototxt", "--out", "b", "--weights", "run/solver_iter_3.solverstate"});
  EXPECT_CONTAINS(as_weights, "--resume");
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--weights", "run/solver_iter_3.caffemodel",
                            "--resume", "run/solver_iter_3.solverstate"}),
                  "exclude each other");
}

// Training may begin with a part of the layers; scoring with a part would score noise.
TEST_F(CliErrors, WeightsThatLeaveLayersOutAreRefusedForUse) {
  const std::string weights = trained_weights();
  std::string net = kTinyNet;
  net.replace(net.find("layer {\n  name: \"accuracy\""), 0,
              "layer { name: \"more\" type: \"InnerProduct\" bottom: \"ip\" top: \"more\" "
              "inner_product_param { num_output: 10 } }\n");
  net.replace(net.rfind("bottom: \"ip\""), 12, "bottom: \"more\"");
  folder_.write("net.prototxt", net);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"test", "net.prototxt", "--weights", weights},
        {"test", "solver.prototxt", "--weights", weights},
        {"classify", "net.prototxt", "--weights", weights, "images-idx3:1"}}) {
    EXPECT_CONTAINS(error_of(command), "no weights for layer of net 'tiny': 'more'");
  }
  EXPECT_EQ(kinet({"train", "solver.prototxt", "--out", "b", "--weights", weights}).status, 0);
  const std::string both = "run/solver_iter_3.caffemodel,b/solver_iter_3.caffemodel";
  EXPECT_EQ(kinet({"test", "net.prototxt", "--weights", both}).status, 0);
}

TEST_F(CliErrors, TheHintForTheShapeIsTheDataLayersOwn) {
  std::string net = kTinyNet;
  net.replace(net.find("scale: 0.05"), 11, "crop_size: 4");
  folder_.write("net.prototxt", net);
  std::filesystem::remove(folder_ / "images-idx3");
  EXPECT_CONTAINS(error_of({"convert", "deploy", "net.prototxt", "-"}), "hint: --shape 1,4,4 ");
  EXPECT_CONTAINS(error_of({"check", "net.prototxt"}), "--shape");
}

TEST_F(CliErrors, ATruncatedModelIsNoticed) {
  trained_weights();
  const std::string bytes = read_file(folder_ / "run/solver_iter_3.caffemodel");
  folder_.write("cut.caffemodel", bytes.substr(0, bytes.size() / 2));
  EXPECT_CONTAINS(error_of({"test", "net.prototxt", "--weights", "cut.caffemodel"}),
                  "cut.caffemodel");
}

TEST_F(CliErrors, AWrongSetIsNamed) {
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--set", "base_lrr=1"}),
                  "did you mean 'base_lr'?");
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--set", "base_lr=abc"}),
                  "kinet: --set base_lr=abc: ");
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--set", "base_lr=\"a"}),
                  "kinet: --set base_lr=\"a: ");
}

TEST_F(CliErrors, AFolderWithARunIsNotWrittenOver) {
  trained_weights();
  const std::string metrics = read_file(folder_ / "run/metrics.jsonl");
  const std::string error = error_of({"train", "solver.prototxt", "--out", "run"});
  EXPECT_CONTAINS(error, "--out run: a run lies there already");
  EXPECT_CONTAINS(error, "--resume run/solver_iter_3.solverstate");
  EXPECT_EQ(kinet({"train", "solver.prototxt", "--out", "b"}).status, 0);
  error_of({"train", "solver.prototxt", "--out", "run", "--resume", "b/solver_iter_3.solverstate"});
  EXPECT_EQ(read_file(folder_ / "run/metrics.jsonl"), metrics);
}

TEST_F(CliErrors, AGpuThatIsNoneIsRefused) {
  EXPECT_CONTAINS(error_of({"train", "solver.prototxt", "--gpu", "first"}),
                  "--gpu first: 'auto', the number of a GPU");
}

TEST_F(CliErrors, CheckFindsALabelOutOfRange) {
  std::string labels(20, '\0');
  labels[13] = 77;
  folder_.write("labels-idx1", idx_bytes({20}, labels));
  const std::string error = error_of({"check", "solver.prototxt"});
  EXPECT_CONTAINS(error, "13");
  EXPECT_CONTAINS(error, "77");
}

TEST_F(CliErrors, CheckCollectsTheErrorsOfItsParts) {
  std::filesystem::remove(folder_ / "images-idx3");
  folder_.write("solver.prototxt",
                std::string(kTinySolver) + "snapshot_prefix: \"/nonexistent-folder/x\"\n");
  const std::string error = error_of({"check", "solver.prototxt"});
  EXPECT_CONTAINS(error, "images-idx3");
  EXPECT_CONTAINS(error, "/nonexistent-folder");
}

TEST_F(CliErrors, ASolverForANetAndTheReverseIsOneLine) {
  const std::string as_solver = error_of({"train", "net.prototxt"});
  EXPECT_CONTAINS(as_solver, "net.prototxt: this is a net file, but train takes a solver file");
  EXPECT_EQ(std::count(as_solver.begin(), as_solver.end(), '\n'), 1) << as_solver;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"time", "solver.prototxt"},
        {"convert", "deploy", "solver.prototxt", "-"},
        {"classify", "solver.prototxt", "--weights", "net.prototxt", "net.prototxt"}}) {
    const std::string error = error_of(command);
    EXPECT_CONTAINS(error, "takes a net file, such as the one it names: net.prototxt");
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  }
}

TEST_F(CliErrors, AnImageIsNoListOfImages) {
  folder_.write("one.jpg", "any");
  EXPECT_CONTAINS(error_of({"convert", "images", "one.jpg", "out"}), "one.jpg: is an image");
}

TEST_F(CliErrors, ClassifyNamesWhatItCannotRead) {
  const std::string weights = trained_weights();
  EXPECT_CONTAINS(error_of({"classify", "net.prototxt", "--weights", weights, "run"}),
                  "run: is a folder");
  EXPECT_CONTAINS(error_of({"classify", "net.prototxt", "--weights", weights, "images-idx3"}),
                  "images-idx3:0-9 are the first ten");
  folder_.write("names.txt", "zero\none\n");
  EXPECT_CONTAINS(error_of({"classify", "net.prototxt", "--weights", weights, "--labels",
                            "names.txt", "images-idx3:1"}),
                  "--labels names.txt: 2 lines, but the net has 10 classes");
  EXPECT_CONTAINS(error_of({"classify", "net.prototxt", "--weights", weights, "cat.jpg"}),
                  "cat.jpg: no such file");
  EXPECT_CONTAINS(error_of({"classify", "net.prototxt", "--weights", weights, "images-idx3:20"}),
                  "the file has items 0 to 19");
}

}  // namespace
}  // namespace kinet
