// The Data layer over LMDB databases: order, crops, shapes, paths, resuming.
#include "data/image_loader.h"
#include "tests/data_layer_runner.h"
#include "tests/lmdb_files.h"

namespace kinet {
namespace {

std::string data_layer(const std::string& source, const std::string& more = "") {
  return "type: \"Data\" data_param { source: \"" + source + "\" " + more + " }";
}

// 5 records, batch 5: values and labels are the record's index, pass after pass.
TEST(DataLayer, ReadsAndWraps) {
  const TemporaryFolder folder;
  const std::string path = write_counting_lmdb(folder, "db", 5);
  DataLayerRunner layer(data_layer(path, "batch_size: 5 backend: LMDB"), Phase::kTest);
  EXPECT_EQ(layer.shape(), (Shape{5, 1, 2, 3}));
  for (int pass = 0; pass < 100; ++pass) {
    layer.forward();
    ASSERT_EQ(layer.labels(), (std::vector<int>{0, 1, 2, 3, 4}));
    const std::vector<float> data = layer.data();
    for (int i = 0; i < 30; ++i) ASSERT_EQ(data[i], i / 6);
  }
  DataLayerRunner three(data_layer(path, "batch_size: 3"), Phase::kTest);
  EXPECT_EQ(three.take_labels(5), (std::vector<int>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
}

TEST(DataLayer, CropsRepeatWithTheSeed) {
  const TemporaryFolder folder;
  {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < 5; ++i) {
      Datum d = raw_datum(1, 6, 6, 0, i);
      for (int p = 0; p < 36; ++p) (*d.mutable_data())[p] = static_cast<char>(p + i);
      writer.put(datum_key(i, "x"), d);
    }
    writer.finish();
  }
  const std::string text = data_layer(folder / "db", "batch_size: 5 shuffle: false") +
                           " transform_param { crop_size: 2 }";
  const std::vector<float> first = DataLayerRunner(text, Phase::kTrain, 1).take(10);
  EXPECT_EQ(DataLayerRunner(text, Phase::kTrain, 1).take(10), first);
  EXPECT_NE(DataLayerRunner(text, Phase::kTrain, 2).take(10), first);
  DataLayerRunner test(text, Phase::kTest);
  test.forward();
  EXPECT_EQ(test.data()[0], 14);  // row 2, column 2
}

TEST(DataLayer, BatchOfOneFollowsEachSize) {
  const TemporaryFolder folder;
  {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < 3; ++i) writer.put(datum_key(i, "x"), raw_datum(1, 2 + i, 3 + 2 * i, i, i));
    writer.finish();
  }
  DataLayerRunner one(data_layer(folder / "db", "batch_size: 1"), Phase::kTest);
  for (int i = 0; i < 6; ++i) {
    one.forward();
    EXPECT_EQ(one.shape(), (Shape{1, 1, 2 + i % 3, 3 + 2 * (i % 3)}));
  }
  const std::string message = message_of(
      [&] { DataLayerRunner(data_layer(folder / "db", "batch_size: 2"), Phase::kTest).forward(); });
  EXPECT_CONTAINS(message, "layer 'data' (Data)");
  EXPECT_CONTAINS(message, "is 1x3x5, but item 0");
}

// B6: a relative path is found beside the model file, and a missing one is shown as written and as
// looked for.
TEST(DataLayer, PathsAsWrittenAndResolved) {
  const TemporaryFolder folder;
  write_counting_lmdb(folder, "db", 5);
  const std::string model = folder / "net.prototxt";
  DataLayerRunner beside(data_layer("db", "batch_size: 5"), Phase::kTest, 1, model);
  EXPECT_EQ(beside.take_labels(1).size(), 5u);
  const std::string message = message_of(
      [&] { DataLayerRunner(data_layer("nodb", "batch_size: 5"), Phase::kTest, 1, model); });
  EXPECT_CONTAINS(message, "'nodb' (looked for at ");
  EXPECT_CONTAINS(message, folder / "nodb");
  EXPECT_CONTAINS(message, model + ":1:");
}

TEST(DataLayer, FieldsThatCannotBe) {
  const TemporaryFolder folder;
  const std::string path = write_counting_lmdb(folder, "db", 5);
  EXPECT_CONTAINS(message_of([&] { DataLayerRunner(data_layer(path)); }),
                  "batch_size must be given");
  EXPECT_CONTAINS(
      message_of([&] { DataLayerRunner(data_layer(path, "batch_size: 1 backend: LEVELDB")); }),
      "kinet convert");
  EXPECT_CONTAINS(
      message_of([&] { DataLayerRunner(data_layer(path, "batch_size: 1 threads: 9")); }),
      "threads is 9, but must lie between 1 and 8");
  EXPECT_CONTAINS(
      message_of([&] { DataLayerRunner("type: \"Data\" data_param { batch_size: 1 }"); }),
      "source is not given");
}

// D1: seek continues a run bit for bit, with everything random switched on.
TEST(DataLayer, SeekWithCropAndMirror) {
  const TemporaryFolder folder;
  const std::string path = write_counting_lmdb(folder, "db", 10);
  const auto text = [&](int threads, int depth) {
    return data_layer(path, fmt::format("batch_size: 3 threads: {} prefetch: {}", threads, depth)) +
           " transform_param { crop_size: 2 mirror: true }";
  };
  DataLayerRunner whole(text(1, 0));
  whole.take(6);
  const std::vector<float> expected = whole.take(4);
  for (int threads : {1, 4}) {
    for (int depth : {1, 8}) {
      DataLayerRunner resumed(text(threads, depth));
      resumed.source().seek(18);
      EXPECT_EQ(resumed.take(4), expected);
      EXPECT_EQ(resumed.source().position(), 30);
    }
  }
}

}  // namespace
}  // namespace kinet
