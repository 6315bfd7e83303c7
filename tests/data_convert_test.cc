// From images to a database, and its mean.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "data/convert.h"
#include "data/image_loader.h"
#include "data/lmdb_dataset.h"
#include "data/mean.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

std::string png(int h, int w, int b) {
  Image image{3, h, w, {}};
  for (int p = 0; p < h * w; ++p) {
    for (int c = 0; c < 3; ++c) image.pixels.push_back(static_cast<uint8_t>(b + c + p % w));
  }
  const std::vector<uint8_t> bytes = encode_image(image, ".png");
  return {bytes.begin(), bytes.end()};
}

// Two classes: dog with three images (blue 20, 21, 22), cat with two (10, 11). 2 x 3 pixels.
void write_classes(const TemporaryFolder& folder) {
  folder.write("in/dog/c.png", png(2, 3, 22));
  folder.write("in/dog/a.png", png(2, 3, 20));
  folder.write("in/dog/b.PNG", png(2, 3, 21));
  folder.write("in/cat/1.png", png(2, 3, 10));
  folder.write("in/cat/2.png", png(2, 3, 11));
  folder.write("in/cat/notes.txt", "no image");
  folder.write("in/cat/.hidden.png", "no image");
}

std::vector<int> blues(const Dataset& dataset) {
  std::vector<int> out;
  Sample s;
  for (int64_t i = 0; i < dataset.items(); ++i) {
    dataset.read(i, s);
    out.push_back(s.bytes[0]);
  }
  return out;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What is left in `folder` besides the given names.
std::vector<std::string> leftovers(const TemporaryFolder& folder,
                                   const std::vector<std::string>& expected) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder.str())) {
    const std::string name = entry.path().filename().string();
    if (std::find(expected.begin(), expected.end(), name) == expected.end()) out.push_back(name);
  }
  return out;
}

TEST(Convert, ClassFolders) {
  const TemporaryFolder folder;
  write_classes(folder);
  ConvertOptions options;
  options.input = folder / "in";
  options.output = folder / "new/db/";
  int64_t last = -1;
  const ConvertReport report = convert_images(options, [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 5);
    last = done;
  });
  EXPECT_EQ(last, 5);
  EXPECT_EQ(report.items, 5);
  EXPECT_EQ(report.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(text_of(folder / "new/db/labels.txt"), "cat\ndog\n");
  const auto dataset = open_lmdb(folder / "new/db");
  EXPECT_EQ(blues(*dataset), (std::vector<int>{10, 11, 20, 21, 22}));
  std::vector<int64_t> labels;
  for (int i = 0; i < 5; ++i) labels.push_back(dataset->label(i));
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 0, 1, 1, 1}));
  EXPECT_CONTAINS(dataset->locate(3), "key '00000003_b.PNG'");
  Sample s;
  dataset->read(2, s);  // planar, blue first
  EXPECT_EQ(std::vector<uint8_t>(s.bytes, s.bytes + 18),
            (std::vector<uint8_t>{20, 21, 22, 20, 21, 22, 21, 22, 23, 21, 22, 23, 22, 23, 24, 22,
                                  23, 24}));
}

TEST(Convert, ListWithOptions) {
  const TemporaryFolder folder;
  write_classes(folder);
  ConvertOptions options;
  options.input = folder.write("list.txt", "dog/a.png 7\ncat/1.png 8\ndog/c.png 9\n");
  options.root = folder / "in";
  options.output = folder / "db";
  options.height = 4;
  options.width = 5;
  options.grey = true;
  convert_images(options);
  Sample s;
  open_lmdb(folder / "db")->read(2, s);
  EXPECT_EQ(s.size_str(), "1x4x5");
  EXPECT_EQ(s.label, 9);
  EXPECT_FALSE(std::filesystem::exists(folder / "db/labels.txt"));
}

TEST(Convert, ShuffleRepeatsWithTheSeed) {
  const TemporaryFolder folder;
  write_classes(folder);
  const auto order = [&](uint64_t seed, const std::string& name) {
    ConvertOptions options;
    options.input = folder / "in";
    options.output = folder / name;
    options.shuffle = true;
    options.seed = seed;
    convert_images(options);
    return blues(*open_lmdb(options.output));
  };
  const std::vector<int> one = order(1, "a");
  EXPECT_EQ(order(1, "b"), one);
  bool differs = false;
  for (uint64_t seed = 2; seed < 6; ++seed) differs |= order(seed, fmt::format("c{}", seed)) != one;
  EXPECT_TRUE(differs);
  EXPECT_TRUE(
      std::is_permutation(one.begin(), one.end(), std::vector<int>{10, 11, 20, 21, 22}.begin()));
}

// Unchanged images keep their very bytes; changed ones are encoded again, here without loss.
TEST(Convert, Encoded) {
  const TemporaryFolder folder;
  write_classes(folder);
  ConvertOptions options;
  options.input = folder / "in";
  options.output = folder / "db";
  options.encoded = true;
  convert_images(options);
  EXPECT_EQ(blues(*open_lmdb(folder / "db")), (std::vector<int>{10, 11, 20, 21, 22}));
  const std::string data = text_of(folder / "db/data.mdb");
  EXPECT_CONTAINS(data, text_of(folder / "in/dog/c.png"));
  options.output = folder / "half";
  options.height = options.width = 6;
  convert_images(options);
  Sample s;
  open_lmdb(folder / "half")->read(0, s);
  EXPECT_EQ(s.size_str(), "3x6x6");
  options.encode_as = ".gif";
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "not '.gif'");
}

TEST(Convert, ExistingOutputNeedsForce) {
  const TemporaryFolder folder;
  write_classes(folder);
  ConvertOptions options;
  options.input = folder / "in";
  options.output = folder / "db";
  convert_images(options);
  std::filesystem::remove(folder / "in/dog/c.png");
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "exists already");
  EXPECT_EQ(open_lmdb(folder / "db")->items(), 5);
  options.force = true;
  convert_images(options);
  EXPECT_EQ(open_lmdb(folder / "db")->items(), 4);
  // Never removes what is no database.
  options.output = folder / "in";
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "is not a database");
  EXPECT_TRUE(std::filesystem::exists(folder / "in/dog/a.png"));
  EXPECT_EQ(leftovers(folder, {"in", "db"}), std::vector<std::string>{});
}

TEST(Convert, BadImagesFailOrAreSkipped) {
  const TemporaryFolder folder;
  write_classes(folder);
  folder.write("in/dog/b.PNG", "no image");
  ConvertOptions options;
  options.input = folder / "in";
  options.output = folder / "db";
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "in/dog/b.PNG: not an image");
  EXPECT_EQ(leftovers(folder, {"in"}), std::vector<std::string>{});  // nothing half done
  options.skip_bad = true;
  const ConvertReport report = convert_images(options);
  EXPECT_EQ(report.items, 4);
  EXPECT_EQ(report.skipped, 1);
  EXPECT_CONTAINS(report.first_skipped, "b.PNG: not an image");
  EXPECT_EQ(blues(*open_lmdb(folder / "db")), (std::vector<int>{10, 11, 20, 22}));
  options.input = folder.write("list.txt", "in/dog/a.png 0\nin/dog/b.PNG 1\n");
  options.output = folder / "other";
  options.skip_bad = false;
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "list.txt:2: ");
}

// A full disk, played by a limit on the size of files: a run-time error, and nothing half done,
// even where bad images are skipped.
TEST(Convert, FullDisk) {
  const TemporaryFolder folder;
  write_classes(folder);
  folder.write("in/cat/large.png", png(300, 300, 0));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 100 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  ConvertOptions options;
  options.input = folder / "in";
  options.output = folder / "db";
  options.skip_bad = true;
  Error::Kind kind = Error::Kind::kUser;
  try {
    convert_images(options);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    kind = error.kind();
    EXPECT_CONTAINS(error.what(), "cannot be written");
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(kind, Error::Kind::kRuntime);
  EXPECT_EQ(leftovers(folder, {"in"}), std::vector<std::string>{});
}

TEST(Convert, InputsThatAreNone) {
  const TemporaryFolder folder;
  ConvertOptions options;
  options.output = folder / "db";
  options.input = folder / "none";
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "no such list or folder");
  folder.write("flat/a.png", png(2, 2, 1));
  options.input = folder / "flat";
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "no class folders");
  folder.write("hollow/cat/readme", "x");
  options.input = folder / "hollow";
  EXPECT_CONTAINS(message_of([&] { convert_images(options); }), "hold no images");
}

TEST(Convert, MeanOfTheDatabase) {
  const TemporaryFolder folder;
  write_classes(folder);
  ConvertOptions options;
  options.input = folder / "in";
  options.output = folder / "db";
  convert_images(options);
  const MeanImage mean = compute_mean(*open_lmdb(folder / "db"));
  EXPECT_EQ(mean.size_str(), "3x2x3");
  EXPECT_FLOAT_EQ(mean.values[0], 16.8f);   // (10 + 11 + 20 + 21 + 22) / 5
  EXPECT_FLOAT_EQ(mean.values[17], 20.8f);  // red, last column: 4 more
  folder.write("in/dog/b.PNG", png(5, 3, 21));
  options.force = true;
  convert_images(options);
  EXPECT_CONTAINS(message_of([&] { compute_mean(*open_lmdb(folder / "db")); }),
                  "(key '00000003_b.PNG') is 3x5x3, but item 0 of");
}

}  // namespace
}  // namespace kinet
