// Image files, lists of them, and the ImageData layer: cases B3.
#include <filesystem>

#include "data/image_format.h"
#include "data/image_list.h"
#include "data/image_loader.h"
#include "tests/data_files.h"
#include "tests/data_layer_runner.h"

namespace kinet {
namespace {

// h x w, of one value in each channel: blue b, green b + 1, red b + 2.
Image flat_image(int channels, int h, int w, int b) {
  Image image{channels, h, w, {}};
  for (int p = 0; p < h * w; ++p) {
    for (int c = 0; c < channels; ++c) image.pixels.push_back(static_cast<uint8_t>(b + c));
  }
  return image;
}

Image noisy_image(int h, int w) {
  Image image{3, h, w, {}};
  for (unsigned i = 0, x = 9; i < 3u * h * w; ++i) {
    image.pixels.push_back(static_cast<uint8_t>((x = x * 1103515245 + 12345) >> 16));
  }
  return image;
}

std::string file_bytes(const Image& image, const std::string& extension) {
  const std::vector<uint8_t> bytes = encode_image(image, extension);
  return {bytes.begin(), bytes.end()};
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Ten images "images/i.png" of 4 x 6 whose blue is 10 i, and list.txt with labels i.
std::string write_ten(const TemporaryFolder& folder) {
  std::string list;
  for (int i = 0; i < 10; ++i) {
    const std::string name = fmt::format("images/{}.png", i);
    folder.write(name, file_bytes(flat_image(3, 4, 6, 10 * i), ".png"));
    list += fmt::format("{} {}\n", name, i);
  }
  return folder.write("list.txt", list);
}

std::string image_layer(const std::string& list, const std::string& more = "") {
  return "type: \"ImageData\" image_data_param { source: \"" + list + "\" " + more + " }";
}

TEST(Image, DecodesToBlueGreenRed) {
  Image image;
  const std::string png = file_bytes(flat_image(3, 4, 6, 100), ".png");
  decode_image(as_bytes(png), ColorMode::kColor, image);
  EXPECT_EQ(image.height, 4);
  EXPECT_EQ(image.width, 6);
  EXPECT_EQ(std::vector<uint8_t>(image.pixels.begin(), image.pixels.begin() + 4),
            (std::vector<uint8_t>{100, 101, 102, 100}));
  decode_image(as_bytes(png), ColorMode::kGrey, image);
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(image.pixels.size(), 24u);
  const std::string grey = file_bytes(flat_image(1, 4, 6, 50), ".jpg");
  decode_image(as_bytes(grey), ColorMode::kAsStored, image);
  EXPECT_EQ(image.channels, 1);
  decode_image(as_bytes(grey), ColorMode::kColor, image);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.pixels[0], 50);
}

TEST(Image, Resizes) {
  Image image = flat_image(3, 4, 6, 100);
  resize_image(image, 7, 5);
  EXPECT_EQ(image.height, 7);
  EXPECT_EQ(image.width, 5);
  EXPECT_EQ(image.pixels.size(), 105u);
  EXPECT_EQ(image.pixels[104], 102);
}

// However much is missing: never a picture that is grey from the middle on.
TEST(Image, TruncatedAnywhere) {
  for (const char* extension : {".jpg", ".png"}) {
    const std::string whole = file_bytes(noisy_image(40, 30), extension);
    ASSERT_EQ(image_trouble(as_bytes(whole)), "");
    ASSERT_EQ(image_trouble(as_bytes(whole + "trailing bytes")), "");
    Image image;
    for (size_t length = 0; length < whole.size(); length += 1 + length / 40) {
      EXPECT_THROW(decode_image(as_bytes(whole.substr(0, length)), ColorMode::kColor, image), Error)
          << extension << " cut to " << length;
    }
    EXPECT_CONTAINS(message_of([&] {
                      decode_image(as_bytes(whole.substr(0, whole.size() - 30)), ColorMode::kColor,
                                   image);
                    }),
                    "truncated");
  }
}

// A thumbnail inside a JPEG has an end-of-image of its own.
// A PNG whose header claims 40,000 x 40,000 pixels: our own words, none of OpenCV's sources.
TEST(Image, TooLarge) {
  std::string png = file_bytes(flat_image(3, 4, 6, 100), ".png");
  const std::string side{'\x00', '\x00', '\x9c', '\x40'};  // big-endian; width, then height
  png.replace(16, 8, side + side);
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17);
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  Image image;
  const std::string error =
      message_of([&] { decode_image(as_bytes(png), ColorMode::kColor, image); });
  EXPECT_CONTAINS(error, "too large");
  for (const char* inside : {"OpenCV(", "CV_", ".cpp", "Assertion"}) {
    EXPECT_EQ(error.find(inside), std::string::npos) << error;
  }
}

TEST(Image, ThumbnailDoesNotCountAsTheEnd) {
  const std::string whole = file_bytes(noisy_image(20, 20), ".jpg");
  const std::string thumbnail = file_bytes(flat_image(3, 8, 8, 5), ".jpg");
  const size_t length = thumbnail.size() + 2;
  std::string segment{'\xff', '\xe1', static_cast<char>(length >> 8), static_cast<char>(length)};
  const std::string with = whole.substr(0, 2) + segment + thumbnail + whole.substr(2);
  EXPECT_EQ(image_trouble(as_bytes(with)), "");
  EXPECT_NE(image_trouble(as_bytes(with.substr(0, with.size() - 100))), "");
}

TEST(ImageList, LinesAsPeopleWriteThem) {
  const TemporaryFolder folder;
  const auto entries =
      read_image_list(folder.write("l", "a.jpg 3\r\nmy cat.jpg\t-1  \n  b  c.jpg   12\n\n \n"));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].path, "a.jpg");
  EXPECT_EQ(entries[0].label, 3);
  EXPECT_EQ(entries[1].path, "my cat.jpg");
  EXPECT_EQ(entries[1].label, -1);
  EXPECT_EQ(entries[2].path, "  b  c.jpg");
  EXPECT_EQ(entries[2].line, 3);
}

TEST(ImageList, FaultyListsAreFoundAtStart) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    const std::string list = folder.write("l", text);
    return message_of([&] { read_image_list(list); });
  };
  EXPECT_CONTAINS(message_of([&] { read_image_list(folder / "none"); }), "No such file");
  EXPECT_CONTAINS(message(""), "the list is empty");
  EXPECT_CONTAINS(message(" \r\n\n"), "the list is empty");
  EXPECT_CONTAINS(message("a.jpg 1\n\nb.jpg 2\n"), "l:2: blank line");
  EXPECT_CONTAINS(message("a.jpg 1\nb.jpg\n"), "l:2: 'b.jpg' has no label");
  EXPECT_CONTAINS(message("a.jpg 1\nmy cat.jpg\n"), "l:2: label 'cat.jpg' is not a whole number");
  EXPECT_CONTAINS(message("a.jpg 1.5\n"), "l:1: label '1.5' is not a whole number");
  EXPECT_CONTAINS(message(" 5\n"), "l:1: no path before the label");
  const std::string both = message("a.jpg\nb.jpg 1\n\nc.jpg\n");  // all in one run
  EXPECT_CONTAINS(both, "l:1:");
  EXPECT_CONTAINS(both, "l:3:");
  EXPECT_CONTAINS(both, "l:4:");
  std::string many;
  for (int i = 0; i < 15; ++i) many += "x\n";
  EXPECT_CONTAINS(message(many), "... and 5 more");
}

TEST(ImageList, NulByteInAPath) {
  const TemporaryFolder folder;
  const std::string list = folder.write("l", std::string("a.jpg 1\nb\0c.jpg 2\n", 18));
  EXPECT_CONTAINS(message_of([&] { read_image_list(list); }), "l:2: the path holds a NUL byte");
}

TEST(ImageData, ReadsInListOrder) {
  const TemporaryFolder folder;
  DataLayerRunner layer(image_layer(write_ten(folder), "batch_size: 5"));  // TRAIN, yet no shuffle
  EXPECT_EQ(layer.shape(), (Shape{5, 3, 4, 6}));
  for (int pass = 0; pass < 2; ++pass) {
    for (int half = 0; half < 2; ++half) {
      layer.forward();
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(layer.labels()[i], half * 5 + i);
        for (int c = 0; c < 3; ++c) {
          EXPECT_EQ(layer.data()[(i * 3 + c) * 24 + 23], (half * 5 + i) * 10 + c);
        }
      }
    }
  }
}

TEST(ImageData, ResizeGreyShuffleSpaces) {
  const TemporaryFolder folder;
  const std::string list = write_ten(folder);
  DataLayerRunner resized(image_layer(list, "batch_size: 2 new_height: 8 new_width: 9"));
  EXPECT_EQ(resized.shape(), (Shape{2, 3, 8, 9}));
  DataLayerRunner grey(image_layer(list, "is_color: false"));
  EXPECT_EQ(grey.shape(), (Shape{1, 1, 4, 6}));
  const std::vector<int> once =
      DataLayerRunner(image_layer(list, "batch_size: 5 shuffle: true")).take_labels(2);
  EXPECT_FALSE(std::is_sorted(once.begin(), once.end()));
  folder.write("my images/a cat.png", file_bytes(flat_image(3, 2, 2, 7), ".png"));
  const std::string spaces = folder.write("spaces.txt", "a cat.png 4\r\n");
  DataLayerRunner layer(image_layer(spaces, "root_folder: \"" + (folder / "my images") + "\""));
  layer.forward();
  EXPECT_EQ(layer.labels(), (std::vector<int>{4}));
  EXPECT_EQ(layer.data()[0], 7);
  EXPECT_CONTAINS(message_of([&] { DataLayerRunner(image_layer(list, "new_height: 8")); }),
                  "must be given together");
}

TEST(ImageData, SizesThatDiffer) {
  const TemporaryFolder folder;
  const std::string list = write_ten(folder);
  folder.write("images/7.png", file_bytes(flat_image(3, 5, 7, 70), ".png"));
  DataLayerRunner one(image_layer(list, "batch_size: 1"));
  for (int i = 0; i < 8; ++i) one.forward();
  EXPECT_EQ(one.shape(), (Shape{1, 3, 5, 7}));
  const std::string message =
      message_of([&] { DataLayerRunner(image_layer(list, "batch_size: 10")).forward(); });
  EXPECT_CONTAINS(message, "list.txt:8 (images/7.png) is 3x5x7");
  EXPECT_CONTAINS(message, "list.txt:1 (images/0.png) is 3x4x6");
  DataLayerRunner cropped(image_layer(list, "batch_size: 10") +
                          " transform_param { crop_size: 4 }");
  cropped.forward();
  EXPECT_EQ(cropped.shape(), (Shape{10, 3, 4, 4}));
}

// Missing and empty files are known when the net is built; others when their turn comes, with the
// line, as the last of ten.
TEST(ImageData, BadImagesAreNamed) {
  const TemporaryFolder folder;
  const std::string list = write_ten(folder);
  const std::string bad = folder / "images/9.png";
  const std::string jpeg = file_bytes(noisy_image(20, 20), ".jpg");
  const auto at_start = [&] { return message_of([&] { DataLayerRunner(image_layer(list)); }); };
  const auto while_running = [&] {
    DataLayerRunner layer(image_layer(list, "batch_size: 3 threads: 2"));
    EXPECT_EQ(layer.take_labels(3).size(), 9u);
    return message_of([&] { layer.forward(); });
  };
  std::filesystem::remove(bad);
  EXPECT_CONTAINS(at_start(), "list.txt:10: " + bad + ": No such file");
  folder.write("images/9.png", "");
  EXPECT_CONTAINS(at_start(), "list.txt:10: " + bad + ": empty file");
  folder.write("images/9.png", "hello, this is text");
  EXPECT_CONTAINS(while_running(), "list.txt:10: " + bad + ": not an image");
  folder.write("images/9.png", jpeg.substr(0, jpeg.size() - 50));
  const std::string message = while_running();
  EXPECT_CONTAINS(message, "list.txt:10: " + bad + ": truncated");
  EXPECT_CONTAINS(message, "layer 'data' (ImageData)");
}

TEST(ImageData, SkipCountsAndGoesOn) {
  const TemporaryFolder folder;
  const std::string list = write_ten(folder);
  std::filesystem::remove(folder / "images/0.png");
  folder.write("images/9.png", "hello, this is text");
  for (int threads : {1, 3}) {
    DataLayerRunner layer(
        image_layer(list, fmt::format("batch_size: 5 on_error: SKIP threads: {}", threads)));
    EXPECT_EQ(layer.take_labels(2), (std::vector<int>{1, 1, 2, 3, 4, 5, 6, 7, 8, 1}));
    EXPECT_EQ(layer.source().skipped(), 2);
  }
}

TEST(ImageData, DryRunFindsLabelsOutOfRange) {
  const TemporaryFolder folder;
  DataLayerRunner layer(image_layer(write_ten(folder)));
  layer.source().check_labels(10);
  const std::string message = message_of([&] { layer.source().check_labels(9); });
  EXPECT_CONTAINS(message, "list.txt:10 (images/9.png): label 9 is not in the range 0 to 8");
}

}  // namespace
}  // namespace kinet
