// Scale, mean, crop and mirror, by values worked out by hand.
// ctest: labels=unit,core,smoke
#include <cmath>
#include <cstring>

#include "data/transform.h"
#include "src/proto/kinet/caffemodel.pb.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

// C H W floats with the values 0, 1, 2, ...
Sample counting_sample(int c, int h, int w) {
  Sample s;
  s.channels = c;
  s.height = h;
  s.width = w;
  for (int64_t i = 0; i < s.pixels(); ++i) s.float_storage.push_back(static_cast<float>(i));
  s.floats = s.float_storage.data();
  return s;
}

// The same pixels as bytes, planar or interleaved.
Sample byte_sample(const Sample& from, bool interleaved) {
  Sample s;
  const int plane = from.height * from.width;
  std::vector<uint8_t> bytes(from.pixels());
  for (int c = 0; c < from.channels; ++c) {
    for (int p = 0; p < plane; ++p) {
      bytes[interleaved ? p * from.channels + c : c * plane + p] =
          static_cast<uint8_t>(from.floats[c * plane + p]);
    }
  }
  s.set_image(std::move(bytes), from.channels, from.height, from.width);
  s.interleaved = interleaved;
  return s;
}

std::vector<float> apply(const TransformSpec& spec, Phase phase, const Sample& s,
                         uint64_t seed = 1) {
  const Transformer transformer(spec, phase);
  std::vector<float> out(transformer.output_size(s, "the item").count());
  transformer.apply(s, Rng(seed, RngPurpose::kAugment), out.data());
  return out;
}

TransformSpec read_spec(const std::string& text) {
  Diagnostics diagnostics;
  const ParamNode root =
      parse_prototxt("transform_param { " + text + " }", "net.prototxt", diagnostics);
  const ParamNode* node = root.find("transform_param");
  validate(*node, transform_fields(), "transform_param", diagnostics);
  diagnostics.throw_if_any();
  return read_transform(Params(node, &transform_fields()));
}

TEST(Transform, IdentityOnEveryLayout) {
  const Sample s = counting_sample(3, 4, 5);
  EXPECT_EQ(apply({}, Phase::kTrain, s), s.float_storage);
  EXPECT_EQ(apply({}, Phase::kTrain, byte_sample(s, false)), s.float_storage);
  EXPECT_EQ(apply({}, Phase::kTrain, byte_sample(s, true)), s.float_storage);
}

TEST(Transform, MeanThenScale) {
  const Sample s = counting_sample(3, 1, 2);  // 0 1 | 2 3 | 4 5
  TransformSpec one = read_spec("mean_value: 1 scale: 0.5");
  EXPECT_EQ(apply(one, Phase::kTest, s), (std::vector<float>{-0.5, 0, 0.5, 1, 1.5, 2}));
  TransformSpec each = read_spec("mean_value: [1, 2, 3] scale: 2");
  const std::vector<float> expected{-2, 0, 0, 2, 2, 4};
  EXPECT_EQ(apply(each, Phase::kTest, s), expected);
  EXPECT_EQ(apply(each, Phase::kTest, byte_sample(s, true)), expected);
}

TEST(Transform, CentreCropInTest) {
  const Sample s = counting_sample(2, 5, 6);
  const TransformSpec spec = read_spec("crop_size: 3");
  // Rows 1 to 3, columns 1 to 3 ((6 - 3) / 2 = 1 rounded down).
  std::vector<float> expected;
  for (int c = 0; c < 2; ++c) {
    for (int y = 1; y <= 3; ++y) {
      for (int x = 1; x <= 3; ++x) expected.push_back(static_cast<float>(c * 30 + y * 6 + x));
    }
  }
  EXPECT_EQ(apply(spec, Phase::kTest, s, 1), expected);
  EXPECT_EQ(apply(spec, Phase::kTest, s, 2), expected);
  EXPECT_EQ(apply(spec, Phase::kTest, byte_sample(s, true)), expected);
}

// Every place of the window comes up, evenly, and the window is a window.
TEST(Transform, RandomCropInTraining) {
  const Sample s = counting_sample(1, 4, 5);
  const TransformSpec spec = read_spec("crop_size: 3");
  std::vector<int> seen(2 * 3, 0);
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const std::vector<float> out = apply(spec, Phase::kTrain, s, seed);
    const int top = static_cast<int>(out[0]) / 5, left = static_cast<int>(out[0]) % 5;
    ASSERT_LE(top, 1);
    ASSERT_LE(left, 2);
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 3; ++x) ASSERT_EQ(out[y * 3 + x], (top + y) * 5 + left + x);
    }
    ++seen[top * 3 + left];
  }
  for (int count : seen) EXPECT_NEAR(count, 100, 45);  // 5 standard deviations
}

TEST(Transform, MirrorReversesColumnsInHalfOfTheItems) {
  const Sample s = counting_sample(2, 2, 3);
  const std::vector<float> mirrored{2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9};
  const TransformSpec spec = read_spec("mirror: true");
  for (const Phase phase : {Phase::kTrain, Phase::kTest}) {
    int count = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
      const std::vector<float> out = apply(spec, phase, s, seed);
      ASSERT_TRUE(out == mirrored || out == s.float_storage);
      ASSERT_EQ(apply(spec, phase, byte_sample(s, true), seed), out);
      count += out == mirrored;
    }
    EXPECT_NEAR(count, 200, 50);  // 5 standard deviations
  }
}

// B5: an 8 x 8 mean with 8 x 8 images and crop 6: the mean is cut at the same place as the image,
// and mirrored with it.
TEST(Transform, MeanFileIsCroppedWithTheImage) {
  const TemporaryFolder folder;
  MeanImage mean{1, 8, 8, {}};
  for (int i = 0; i < 64; ++i) mean.values.push_back(0.25f * static_cast<float>(i));
  write_mean(mean, folder / "mean.binaryproto");
  const TransformSpec spec = read_spec("crop_size: 6 mirror: true scale: 4 mean_file: \"" +
                                       (folder / "mean.binaryproto") + "\"");
  const Sample s = counting_sample(1, 8, 8);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> out = apply(spec, Phase::kTrain, s, seed);
    // (i - i / 4) * 4 = 3 i for the pixel i that stands there.
    const int first = static_cast<int>(out[0]) / 3, second = static_cast<int>(out[1]) / 3;
    ASSERT_EQ(std::abs(second - first), 1);
    const int step = second - first;
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 6; ++x) ASSERT_EQ(out[y * 6 + x], 3 * (first + 8 * y + step * x));
    }
  }
  const std::vector<float> centre =
      apply(read_spec("crop_size: 6 mean_file: \"" + (folder / "mean.binaryproto") + "\""),
            Phase::kTest, s);
  EXPECT_EQ(centre[0], 9 * 0.75f);  // row 1, column 1
  EXPECT_EQ(centre[35], 54 * 0.75f);
}

TEST(Transform, MeanOfTheSameDataLeavesNothing) {
  const TemporaryFolder folder;
  const CountingDataset dataset(1, 2, 3);
  write_mean(compute_mean(dataset), folder / "m");
  Sample s;
  dataset.read(0, s);
  EXPECT_EQ(apply(read_spec("mean_file: \"" + (folder / "m") + "\""), Phase::kTest, s),
            std::vector<float>(6, 0.0f));
}

TEST(Transform, MisfitsDieWell) {
  const TemporaryFolder folder;
  write_mean({1, 6, 6, std::vector<float>(36, 1.0f)}, folder / "mean6");
  const std::string mean_file = "mean_file: \"" + (folder / "mean6") + "\"";
  const Sample s = counting_sample(1, 8, 8), colour = counting_sample(3, 8, 8);
  std::string m =
      message_of([&] { apply(read_spec("crop_size: 6 " + mean_file), Phase::kTest, s); });
  for (const char* part : {"mean6", "is 1x6x6, but the item is 1x8x8", "before the crop",
                           "mean_value for each channel", "net.prototxt:1:"}) {
    EXPECT_CONTAINS(m, part);
  }
  std::vector<float> holed(36, 1.0f);
  holed[7] = std::nanf("");
  write_mean({1, 6, 6, holed}, folder / "holed");
  m = message_of([&] { read_spec("mean_file: \"" + (folder / "holed") + "\""); });
  EXPECT_CONTAINS(m, "holed: value 7 of the mean is nan");
  m = message_of([&] { read_spec("mean_value: 3 " + mean_file); });
  EXPECT_CONTAINS(m, "mean_file and mean_value exclude each other");
  m = message_of([&] { apply(read_spec("mean_value: [1, 2]"), Phase::kTest, colour); });
  EXPECT_CONTAINS(m, "2 mean_value given, but the item has 3 channels");
  m = message_of([&] { apply(read_spec("crop_size: 9"), Phase::kTest, s); });
  EXPECT_CONTAINS(m, "crop_size 9 is larger than the item, which is 1x8x8");
  m = message_of([&] { read_spec("mean_file: \"nowhere/mean\""); });
  EXPECT_CONTAINS(m, "'nowhere/mean' (looked for at ");
  const std::string text = folder.write("text", "this is no mean file");
  EXPECT_CONTAINS(message_of([&] { read_mean(text); }), "not a mean file");
  m = message_of([&] { read_spec("force_color: true force_gray: true"); });
  EXPECT_CONTAINS(m, "exclude each other");
}

TEST(Mean, ReadsBothFormsOfBlob) {
  const TemporaryFolder folder;
  BlobProto blob;
  for (int dim : {1, 1, 2}) blob.mutable_shape()->add_dim(dim);
  blob.add_data(0.5f);
  blob.add_data(1.5f);
  const MeanImage shaped = read_mean(folder.write("shaped", blob.SerializeAsString()));
  EXPECT_EQ(shaped.size_str(), "1x1x2");
  EXPECT_EQ(shaped.values, (std::vector<float>{0.5, 1.5}));
  write_mean(shaped, folder / "old");
  std::ifstream in(folder / "old", std::ios::binary);
  BlobProto old;
  ASSERT_TRUE(old.ParseFromIstream(&in));
  EXPECT_EQ(old.num(), 1);
  EXPECT_EQ(old.width(), 2);
  EXPECT_EQ(read_mean(folder / "old").values, shaped.values);
  // Truncated in the values, and with a size that its values do not fill.
  std::filesystem::resize_file(folder / "old", std::filesystem::file_size(folder / "old") - 3);
  EXPECT_CONTAINS(message_of([&] { read_mean(folder / "old"); }), "not a mean file");
  old.set_width(3);
  const std::string wrong = folder.write("wrong", old.SerializeAsString());
  EXPECT_CONTAINS(message_of([&] { read_mean(wrong); }), "2 values");
}

// A mean file as Caffe writes it, byte by byte: 1 x 1 x 1 x 2, values 1 and -2.
TEST(Mean, OnTheWire) {
  const TemporaryFolder folder;
  write_mean({1, 1, 2, {1, -2}}, folder / "m");
  std::ifstream in(folder / "m", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::string expected("\x08\x01\x10\x01\x18\x01\x20\x02", 8);
  const std::string values("\x2a\x08\0\0\x80\x3f\0\0\0\xc0", 10);
  EXPECT_EQ(bytes.size(), 18u);
  EXPECT_CONTAINS(bytes, expected);
  EXPECT_CONTAINS(bytes, values);
}

TEST(Mean, IsTheMeanAndNamesTheOddOne) {
  const MeanImage mean = compute_mean(CountingDataset(5, 1, 2));  // items 0 to 4: i, i + 10
  EXPECT_EQ(mean.values, (std::vector<float>{2, 12}));
  EXPECT_EQ(channel_means(mean), (std::vector<float>{7}));
  class Odd : public CountingDataset {
   public:
    Odd() : CountingDataset(5, 4, 2) {}
    void read(int64_t index, Sample& s) const override {
      CountingDataset::read(index, s);
      if (index >= 3) s.height = 3;
    }
  };
  EXPECT_CONTAINS(message_of([] { compute_mean(Odd()); }), "item 3 is 1x3x2, but item 0 is 1x4x2");
}

}  // namespace
}  // namespace kinet
