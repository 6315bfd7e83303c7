// Starting weights: copied by layer name, and everything that was not is said (C10); old model
// files.
#include <gtest/gtest.h>

#include "src/base/files.h"
#include "src/net/caffemodel.h"
#include "src/proto/kinet/caffemodel.pb.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

// x (2x3) -> a (4) -> b (5) -> c (4) -> d (3), all full layers.
std::string four_layers(const std::string& suffix = "", int width_of_b = 5) {
  std::string net =
      "layer { name: 'in' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: 2 "
      "dim: "
      "3 } data_filler { type: 'gaussian' } } }\n";
  std::string bottom = "x";
  const std::pair<const char*, int> kLayers[] = {{"a", 4}, {"b", width_of_b}, {"c", 4}, {"d", 3}};
  for (const auto& [name, outputs] : kLayers) {
    net += fmt::format(
        "layer {{ name: '{}{}' type: 'InnerProduct' bottom: '{}' top: '{}' inner_product_param {{ "
        "num_output: {} weight_filler {{ type: 'gaussian' }} }} }}\n",
        name, suffix, bottom, name, outputs);
    bottom = name;
  }
  return net + "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'd' bottom: 'y' top: 'loss' }\n";
}

class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.output_folder = folder_.str();
    options_.seed = 1;
    TestRun r(text(four_layers()), options_);
    r.run();
    trained_ = blob(r, "b");
    options_.seed = 2;
    options_.weights = {file()};
  }
  static std::string text(const std::string& net, const std::string& more = "") {
    return solver_text(net,
                       "base_lr: 0.001 momentum: 0.9 max_iter: 3 snapshot_prefix: 'w' " + more);
  }
  static std::vector<float> blob(TestRun& r, const std::string& layer) {
    Net& net = r.solver->train_net();
    const Tensor& t = net.layer(net.layer_index(layer)).blobs()[0];
    return {t.data(), t.data() + t.count()};
  }
  std::string file() const { return folder_ / "w_iter_3.caffemodel"; }
  // The trained model as another program would hold it: without what kinet adds at the end.
  NetParameter proto() const {
    NetParameter p;
    EXPECT_TRUE(p.ParseFromString(read_file(file())));
    p.clear_kinet();
    p.clear_kinet_checksum();
    return p;
  }

  TemporaryFolder folder_;
  SolverOptions options_;
  std::vector<float> trained_;
};

TEST_F(WeightsTest, AllLayersAreCopiedAndTheRunBeginsAtZero) {  // D6
  TestRun r(text(four_layers()), options_);
  EXPECT_TRUE(r.seen.has_note("loaded 4 of 4 layers from " + file()));
  EXPECT_EQ(blob(r, "b"), trained_);
  EXPECT_EQ(r.solver->iteration(), 0);
  for (const float x : r.solver->history()) EXPECT_EQ(x, 0);
  r.run();
  EXPECT_EQ(r.seen.starts[0].history, "empty");
  EXPECT_EQ(r.seen.starts[0].iteration, 0);
}

TEST_F(WeightsTest, ARenamedLayerIsNamed) {
  std::string net = four_layers();
  net.replace(net.find("name: 'b'"), 9, "name: 'q'");
  TestRun r(text(net), options_);
  EXPECT_TRUE(r.seen.has_note("loaded 3 of 4 layers from " + file() +
                              "; unused in the file: b; not in the file: q"));
}

TEST_F(WeightsTest, NothingLoadedIsAnError) {
  const std::string message = message_of([&] { TestRun(text(four_layers("_new")), options_); });
  EXPECT_CONTAINS(message, "none of its layers is in the net");
  EXPECT_CONTAINS(message, "in the file: a, b, c, d");
  EXPECT_CONTAINS(message, "in the net: a_new, b_new, c_new, d_new");
}

TEST_F(WeightsTest, AMisfitShowsBothLayersAndShapes) {
  const std::string message = message_of([&] { TestRun(text(four_layers("", 10)), options_); });
  EXPECT_CONTAINS(message,
                  "layer 'b' (InnerProduct) of the net has blobs 10x4, 10; layer 'b' of the "
                  "file has 5x4, 5");
  EXPECT_CONTAINS(message, "layer 'c'");  // the one after it does not fit either
  EXPECT_CONTAINS(message, "hint");
}

TEST_F(WeightsTest, SeveralFilesAndTheLastWins) {
  NetParameter one = proto(), two = proto();
  one.mutable_layer()->DeleteSubrange(3, 3);  // in, a, b
  two.mutable_layer()->DeleteSubrange(0, 2);  // b, c, d, loss
  for (float& x : *two.mutable_layer(0)->mutable_blobs(0)->mutable_data()) x = 7;
  folder_.write("one.caffemodel", one.SerializeAsString());
  folder_.write("two.caffemodel", two.SerializeAsString());
  options_.weights = {folder_ / "one.caffemodel" + "," + folder_ / "two.caffemodel"};
  TestRun r(text(four_layers()), options_);
  EXPECT_TRUE(r.seen.has_note("loaded 2 of 4 layers from " + folder_ / "one.caffemodel"));
  EXPECT_TRUE(r.seen.has_note("loaded 3 of 4 layers from " + folder_ / "two.caffemodel"));
  EXPECT_EQ(blob(r, "b"), std::vector<float>(20, 7));
  // The same by the solver file.
  SolverOptions plain = options_;
  plain.weights.clear();
  TestRun by_field(text(four_layers(), "weights: '" + folder_ / "two.caffemodel" + "'"), plain);
  EXPECT_EQ(blob(by_field, "b"), std::vector<float>(20, 7));
}

// A V1 file: other field numbers, four fixed axes, 1x1x5x4 for a matrix and 1x1x1x5 for a bias.
TEST_F(WeightsTest, OldModelsAreRead) {
  const NetParameter trained = proto();
  NetParameter old;
  for (const LayerParameter& layer : trained.layer()) {
    V1LayerParameter& v1 = *old.add_layers();
    v1.set_name(layer.name());
    v1.set_type(14);
    for (const BlobProto& blob : layer.blobs()) {
      BlobProto& b = *v1.add_blobs();
      const bool matrix = blob.shape().dim_size() == 2;
      b.set_num(1);
      b.set_channels(1);
      b.set_height(static_cast<int>(matrix ? blob.shape().dim(0) : 1));
      b.set_width(static_cast<int>(blob.shape().dim(matrix ? 1 : 0)));
      *b.mutable_data() = blob.data();
    }
  }
  options_.weights = {folder_.write("v1.caffemodel", old.SerializeAsString())};
  TestRun r(text(four_layers()), options_);
  EXPECT_TRUE(r.seen.has_note("loaded 4 of 4 layers"));
  EXPECT_EQ(blob(r, "b"), trained_);
  // The axes count: 4x5 is not 5x4.
  old.mutable_layers(2)->mutable_blobs(0)->set_height(4);
  old.mutable_layers(2)->mutable_blobs(0)->set_width(5);
  options_.weights = {folder_.write("v1.caffemodel", old.SerializeAsString())};
  EXPECT_CONTAINS(message_of([&] { TestRun(text(four_layers()), options_); }), "1x1x4x5");
}

TEST_F(WeightsTest, DoublePrecisionBlobsAreRead) {
  NetParameter p = proto();
  for (LayerParameter& layer : *p.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) {
      blob.mutable_double_data()->Add(blob.data().begin(), blob.data().end());
      blob.clear_data();
    }
  }
  options_.weights = {folder_.write("double.caffemodel", p.SerializeAsString())};
  TestRun r(text(four_layers()), options_);
  EXPECT_EQ(blob(r, "b"), trained_);
}

TEST_F(WeightsTest, ABlobThatIsTooShortIsDamage) {
  NetParameter p = proto();
  p.mutable_layer(1)->mutable_blobs(0)->mutable_data()->RemoveLast();
  options_.weights = {folder_.write("short.caffemodel", p.SerializeAsString())};
  EXPECT_CONTAINS(message_of([&] { TestRun(text(four_layers()), options_); }),
                  "layer 'a': a blob of shape 4x3 holds 11 numbers");
}

// More than the 64 MB that old protobuf readers refused.
TEST_F(WeightsTest, LargeFilesAreRead) {
  NetParameter p = proto();
  BlobProto& large = *p.mutable_layer(0)->add_blobs();
  large.mutable_shape()->add_dim(17'500'000);
  large.mutable_data()->Resize(17'500'000, 1.5F);
  const Model model = Model::parse(p.SerializeAsString(), "large");
  ASSERT_EQ(model.layers()[0].blobs.size(), 1u);
  EXPECT_EQ(model.layers()[0].blobs[0].data.back(), 1.5F);
}

TEST(Legacy, ShapesThatStandForEachOther) {
  const std::vector<float> data(6);
  const auto fits = [&](const Shape& file, bool legacy, const Shape& net) {
    return ModelBlob{file, legacy, data}.fits(net);
  };
  EXPECT_TRUE(fits({1, 1, 3, 2}, true, {3, 2}));
  EXPECT_TRUE(fits({1, 1, 1, 6}, true, {6}));
  EXPECT_TRUE(fits({6, 1, 1, 1}, true, {6}));
  EXPECT_TRUE(fits({1, 3, 2, 1}, true, {3, 2}));
  EXPECT_FALSE(fits({1, 1, 2, 3}, true, {3, 2}));
  EXPECT_FALSE(fits({1, 1, 1, 6}, true, {3, 2}));
  EXPECT_FALSE(fits({1, 1, 3, 2}, false, {3, 2}));  // a new file means what it says
  EXPECT_TRUE(fits({3, 2}, false, {3, 2}));
}

}  // namespace
}  // namespace kinet
