// MnistData and Cifar10Data: from files to tops.
// ctest: labels=unit,core,smoke
#include <filesystem>

#include "tests/data_files.h"
#include "tests/data_layer_runner.h"

namespace kinet {
namespace {

std::string mnist_layer(const std::pair<std::string, std::string>& files, const std::string& more) {
  return "type: \"MnistData\" mnist_data_param { images: \"" + files.first + "\" labels: \"" +
         files.second + "\" " + more + " }";
}

TEST(MnistData, ScalesAndLabels) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 7, 2, 3);
  DataLayerRunner layer(
      mnist_layer(files, "batch_size: 4") + " transform_param { scale: 0.00390625 }", Phase::kTest);
  EXPECT_EQ(layer.shape(), (Shape{4, 1, 2, 3}));
  layer.forward();
  EXPECT_EQ(layer.labels(), (std::vector<int>{0, 1, 2, 3}));
  for (int i = 0; i < 24; ++i) {
    const int item = i / 6;
    EXPECT_EQ(layer.data()[i], static_cast<float>(item) / 256);
  }
  EXPECT_CONTAINS(layer.layer().summary(), "7 images 1x2x3 from ");
}

TEST(MnistData, ShufflesInTrainingOnly) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 10, 1, 1);
  const std::vector<int> in_order{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::string plain = mnist_layer(files, "batch_size: 10");
  EXPECT_EQ(DataLayerRunner(plain, Phase::kTest).take_labels(1), in_order);
  DataLayerRunner train(plain, Phase::kTrain, 5);
  const std::vector<int> first = train.take_labels(1), second = train.take_labels(1);
  EXPECT_NE(first, in_order);
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), in_order.begin()));
  EXPECT_EQ(DataLayerRunner(plain, Phase::kTrain, 5).take_labels(1), first);
  const std::string off = mnist_layer(files, "batch_size: 10 shuffle: false");
  EXPECT_EQ(DataLayerRunner(off, Phase::kTrain).take_labels(1), in_order);
  const std::string on = mnist_layer(files, "batch_size: 10 shuffle: true");
  EXPECT_NE(DataLayerRunner(on, Phase::kTest).take_labels(1), in_order);
}

// B7: 7 items: the last batch is short, its tops are resized, and every pass starts at item 0.
TEST(MnistData, TestPassCoversTheSetOnce) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 7, 2, 2);
  for (int batch = 1; batch <= 8; ++batch) {
    DataLayerRunner layer(mnist_layer(files, fmt::format("batch_size: {}", batch)), Phase::kTest);
    layer.source().stop_at_epoch_end(true);
    for (int pass = 0; pass < 2; ++pass) {
      layer.source().seek(0);
      std::vector<int> seen;
      while (layer.source().position() < layer.source().items()) {
        layer.forward();
        ASSERT_EQ(layer.shape()[0], static_cast<int64_t>(layer.labels().size()));
        const std::vector<int> labels = layer.labels();
        seen.insert(seen.end(), labels.begin(), labels.end());
      }
      EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4, 5, 6})) << "batch " << batch;
      EXPECT_EQ(layer.source().position(), 7);
    }
  }
}

// B8: one process wraps.
TEST(MnistData, BatchLargerThanTheSet) {
  const TemporaryFolder folder;
  DataLayerRunner layer(mnist_layer(write_counting_idx(folder, 5, 1, 1), "batch_size: 8"),
                        Phase::kTest);
  EXPECT_EQ(layer.take_labels(1), (std::vector<int>{0, 1, 2, 3, 4, 0, 1, 2}));
}

TEST(MnistData, ErrorsNameLayerAndFile) {
  const TemporaryFolder folder;
  const auto files = write_counting_idx(folder, 5, 2, 2);
  std::filesystem::resize_file(files.first, 20);
  const std::string message =
      message_of([&] { DataLayerRunner(mnist_layer(files, "batch_size: 1")); });
  EXPECT_CONTAINS(message, "net.prototxt:1:1: layer 'data' (MnistData): " + files.first);
  EXPECT_CONTAINS(message, "promises 20 bytes, found 4");
  EXPECT_CONTAINS(message_of([&] {
                    DataLayerRunner(mnist_layer({"no/images", "no/labels"}, "batch_size: 1"));
                  }),
                  "'no/images' (looked for at ");
}

// One record: label, then 1024 bytes each of red, green, blue.
std::string cifar_record(int label, int red, int green, int blue) {
  return std::string(1, static_cast<char>(label)) + std::string(1024, static_cast<char>(red)) +
         std::string(1024, static_cast<char>(green)) + std::string(1024, static_cast<char>(blue));
}

std::string cifar_layer(const std::vector<std::string>& files) {
  std::string sources;
  for (const std::string& file : files) sources += "source: \"" + file + "\" ";
  return "type: \"Cifar10Data\" cifar10_data_param { batch_size: 3 " + sources + "}";
}

TEST(Cifar10Data, SeveralFilesBlueFirst) {
  const TemporaryFolder folder;
  const std::string one =
      folder.write("1.bin", cifar_record(3, 1, 2, 3) + cifar_record(4, 4, 5, 6));
  const std::string two = folder.write("2.bin", cifar_record(9, 7, 8, 9));
  DataLayerRunner layer(cifar_layer({one, two}), Phase::kTest);
  EXPECT_EQ(layer.shape(), (Shape{3, 3, 32, 32}));
  layer.forward();
  EXPECT_EQ(layer.labels(), (std::vector<int>{3, 4, 9}));
  std::vector<float> corners;
  for (int p = 0; p < 9; ++p) corners.push_back(layer.data()[p * 1024 + 1023]);
  EXPECT_EQ(corners, (std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7}));
  const std::string message = message_of([&] { layer.source().check_labels(9); });
  EXPECT_CONTAINS(message, "record 0 of " + two);
}

TEST(Cifar10Data, TruncatedFile) {
  const TemporaryFolder folder;
  const std::string path = folder.write("1.bin", cifar_record(3, 1, 2, 3).substr(1));
  EXPECT_CONTAINS(message_of([&] { DataLayerRunner(cifar_layer({path})); }),
                  "3,072 bytes are no multiple of 3073");
  EXPECT_CONTAINS(message_of([&] { DataLayerRunner(cifar_layer({})); }), "source is not given");
}

}  // namespace
}  // namespace kinet
