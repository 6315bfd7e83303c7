// LMDB databases: reading back what was written, and every way in which one can be unusable.
#include <lmdb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "data/image_loader.h"
#include "data/lmdb_dataset.h"
#include "data/lmdb_writer.h"
#include "src/proto/kinet/datum.pb.h"
#include "tests/lmdb_files.h"

namespace kinet {
namespace {

TEST(Lmdb, ReadsItemsInOrder) {
  const TemporaryFolder folder;
  const std::string path = write_counting_lmdb(folder, "db", 5);
  for (const std::string& opened : {path, path + "/data.mdb"}) {
    const auto dataset = open_lmdb(opened);
    ASSERT_EQ(dataset->items(), 5);
    Sample s;
    for (int i = 0; i < 5; ++i) {
      dataset->read(i, s);
      EXPECT_EQ(s.size_str(), "1x2x3");
      EXPECT_EQ(s.label, i);
      for (int p = 0; p < 6; ++p) EXPECT_EQ(s.bytes[p], i);
    }
    EXPECT_CONTAINS(dataset->locate(3), "key '00000003_x'");
    EXPECT_CONTAINS(dataset->describe(), "5 images from " + opened);
  }
}

TEST(Lmdb, FloatAndEncodedDatums) {
  const TemporaryFolder folder;
  {
    LmdbWriter writer(folder / "db");
    Datum floats = raw_datum(1, 1, 2, 0, 7);
    floats.clear_data();
    floats.add_float_data(0.25f);
    floats.add_float_data(-3.0f);
    writer.put("0", floats);
    const Image image{3, 1, 2, {10, 20, 30, 40, 50, 60}};
    const std::vector<uint8_t> png = encode_image(image, ".png");
    Datum encoded;
    encoded.set_data(png.data(), png.size());
    encoded.set_encoded(true);
    encoded.set_label(8);
    writer.put("1", encoded);
    writer.finish();
  }
  Sample s;
  const auto dataset = open_lmdb(folder / "db");
  dataset->read(0, s);
  EXPECT_EQ(s.floats[0], 0.25f);
  EXPECT_EQ(s.floats[1], -3.0f);
  dataset->read(1, s);
  EXPECT_EQ(s.label, 8);
  EXPECT_TRUE(s.interleaved);
  EXPECT_EQ(std::vector<uint8_t>(s.bytes, s.bytes + 6),
            (std::vector<uint8_t>{10, 20, 30, 40, 50, 60}));
  open_lmdb(folder / "db", ColorMode::kGrey)->read(1, s);
  EXPECT_EQ(s.channels, 1);
}

// The map starts at one page's worth and has to grow many times.
TEST(Lmdb, MapGrowsAsNeeded) {
  const TemporaryFolder folder;
  {
    LmdbWriter writer(folder / "db", 64 << 10);
    for (int i = 0; i < 3000; ++i) writer.put(datum_key(i, "x"), raw_datum(1, 40, 50, i % 256, i));
    writer.finish();
  }
  const auto dataset = open_lmdb(folder / "db");
  ASSERT_EQ(dataset->items(), 3000);
  Sample s;
  for (int i = 0; i < 3000; ++i) {
    dataset->read(i, s);
    ASSERT_EQ(s.label, i);
    ASSERT_EQ(s.bytes[1999], i % 256);
  }
}

TEST(Lmdb, OpensDoNotLockEachOtherOut) {
  const TemporaryFolder folder;
  const std::string path = write_counting_lmdb(folder, "db", 5);
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto train = open_lmdb(path), test = open_lmdb(path);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int status = 1;
    try {
      const auto again = open_lmdb(path);
      Sample s;
      again->read(4, s);
      status = s.label == 4 ? 0 : 2;
    } catch (...) {
    }
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Sample s;
  test->read(2, s);
  train->read(3, s);
  EXPECT_EQ(s.label, 3);
  EXPECT_FALSE(std::filesystem::exists(path + "/lock.mdb"));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

// Nor does a program that is writing at this moment, with locks, as Caffe's tools do.
TEST(Lmdb, WriterDoesNotLockUsOut) {
  const TemporaryFolder folder;
  const std::string path = write_counting_lmdb(folder, "db", 5);
  MDB_env* env = nullptr;
  MDB_txn* writing = nullptr;
  ASSERT_EQ(mdb_env_create(&env), MDB_SUCCESS);
  ASSERT_EQ(mdb_env_open(env, path.c_str(), 0, 0664), MDB_SUCCESS);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &writing), MDB_SUCCESS);
  EXPECT_EQ(open_lmdb(path)->items(), 5);
  mdb_txn_abort(writing);
  mdb_env_close(env);
}

// Field numbers and types as Caffe's databases have them, byte by byte.
TEST(Lmdb, DatumOnTheWire) {
  const std::string wire = std::string("\x08\x01\x10\x02\x18\x03", 6) +  // 1 x 2 x 3
                           std::string("\x22\x06ukinet", 8) +            // data, 6 bytes
                           std::string("\x28\xac\x02", 3);               // label 300
  const TemporaryFolder folder;
  {
    LmdbWriter writer(folder / "db");
    writer.put("0", wire);
    // Two floats, each with its tag, as proto2 writes them: 1 and -2.
    writer.put("1", std::string("\x08\x01\x10\x01\x18\x02\x35\0\0\x80\x3f\x35\0\0\0\xc0", 16));
    writer.finish();
  }
  const auto dataset = open_lmdb(folder / "db");
  Sample s;
  dataset->read(0, s);
  EXPECT_EQ(s.size_str(), "1x2x3");
  EXPECT_EQ(std::string(s.bytes, s.bytes + 6), "ukinet");
  EXPECT_EQ(s.label, 300);
  dataset->read(1, s);
  EXPECT_EQ(s.floats[0], 1.0f);
  EXPECT_EQ(s.floats[1], -2.0f);
  Datum datum = raw_datum(1, 2, 3, 0, 300);
  datum.set_data("ukinet");
  EXPECT_EQ(datum.SerializeAsString(), wire);
}

TEST(Lmdb, ManyThreadsReadAtOnce) {
  const TemporaryFolder folder;
  const auto dataset = open_lmdb(write_counting_lmdb(folder, "db", 200));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Sample s;
      for (int i = 0; i < 2000; ++i) {
        dataset->read((i * 7 + t) % 200, s);
        wrong += s.label != (i * 7 + t) % 200 || s.bytes[5] != s.label;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Lmdb, UnusableDatabases) {
  const TemporaryFolder folder;
  EXPECT_CONTAINS(message_of([&] { open_lmdb(folder / "none"); }), "no such database");
  std::filesystem::create_directory(folder / "plain");
  EXPECT_CONTAINS(message_of([&] { open_lmdb(folder / "plain"); }), "has no data.mdb");
  folder.write("text/data.mdb", std::string(20000, 'x'));
  EXPECT_CONTAINS(message_of([&] { open_lmdb(folder / "text"); }), "not an LMDB database");
  folder.write("zero/data.mdb", "");
  EXPECT_CONTAINS(message_of([&] { open_lmdb(folder / "zero"); }),
                  folder / "zero/data.mdb" + ": is empty, not a database");
  folder.write("level/CURRENT", "MANIFEST-000001\n");
  EXPECT_CONTAINS(message_of([&] { open_lmdb(folder / "level"); }), "LevelDB");
  const std::string empty = write_counting_lmdb(folder, "empty", 0);
  EXPECT_CONTAINS(message_of([&] { open_lmdb(empty); }), "holds no items");
  const std::string cut = write_counting_lmdb(folder, "cut", 2000);
  const auto size = std::filesystem::file_size(cut + "/data.mdb");
  for (const uintmax_t length : {size - 1, size / 2, uintmax_t{9000}, uintmax_t{100}}) {
    std::filesystem::resize_file(cut + "/data.mdb", length);
    EXPECT_CONTAINS(message_of([&] { open_lmdb(cut); }), "cut");
  }
}

// A file whose bytes can be changed in place.
class Bytes {
 public:
  explicit Bytes(const std::string& path)
      : file_(path, std::ios::binary | std::ios::in | std::ios::out) {}
  void flip(uint64_t bit) {
    char byte = 0;
    file_.seekg(static_cast<std::streamoff>(bit / 8)).read(&byte, 1);
    byte = static_cast<char>(byte ^ (1 << bit % 8));
    file_.seekp(static_cast<std::streamoff>(bit / 8)).write(&byte, 1).flush();
  }

 private:
  std::fstream file_;
};

// Opens the database and reads all of it; whether nothing was found wrong.
bool reads_whole(const std::string& path) {
  try {
    const auto dataset = open_lmdb(path);
    Sample s;
    for (int64_t i = 0; i < dataset->items(); ++i) dataset->read(i, s);
    return true;
  } catch (const Error& error) {
    EXPECT_CONTAINS(error.what(), path);
    return false;
  }
}

// One bit after the other is wrong: in both headers, in branch and leaf pages, in values that lie
// on their leaf and in such as have pages of their own. LMDB alone would end the process here.
TEST(Lmdb, SurvivesEveryFlippedBit) {
  const TemporaryFolder folder;
  {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < 300; ++i) {
      writer.put(datum_key(i, "x"), raw_datum(1, i % 10 == 0 ? 9000 : 40, 1, i, i));
    }
    writer.finish();
  }
  const std::string path = folder / "db";
  ASSERT_TRUE(reads_whole(path));
  const uint64_t bits = std::filesystem::file_size(path + "/data.mdb") * 8, page = 4096 * 8;
  Bytes bytes(path + "/data.mdb");
  int refused = 0, tried = 0;
  const auto try_bit = [&](uint64_t bit) {
    bytes.flip(bit);
    refused += !reads_whole(path);
    ++tried;
    bytes.flip(bit);
  };
  for (const uint64_t header : {uint64_t{0}, page}) {
    for (uint64_t bit = 0; bit < 152 * 8; ++bit) try_bit(header + bit);
  }
  // The beginning of every tenth page, and all of the file in large steps.
  for (uint64_t at = 2 * page; at < bits; at += 10 * page) {
    for (uint64_t bit = 0; bit < 24 * 8; ++bit) try_bit(at + bit);
  }
  for (uint64_t bit = 2 * page; bit < bits; bit += 4001) try_bit(bit);
  EXPECT_GT(refused, 500) << "of " << tried;
  EXPECT_TRUE(reads_whole(path));
}

TEST(Lmdb, DamageIsNamed) {
  const TemporaryFolder folder;
  const std::string path = write_counting_lmdb(folder, "db", 1000);  // a root and leaves
  const auto error = [&](uint64_t byte) {
    Bytes bytes(path + "/data.mdb");
    bytes.flip(byte * 8);
    const std::string message = message_of([&] { open_lmdb(path); });
    bytes.flip(byte * 8);
    return message;
  };
  EXPECT_CONTAINS(error(40), path + "/data.mdb: a damaged LMDB database: impossible page size");
  EXPECT_CONTAINS(error(4096 + 16), "its second header is not one");
  EXPECT_CONTAINS(error(2 * 4096), "a damaged LMDB database: page 2");
  EXPECT_CONTAINS(error(2 * 4096 + 10), "a damaged LMDB database: page 2");
  EXPECT_CONTAINS(error(20), "format 0");
}

TEST(Lmdb, BadItemsAreNamed) {
  const TemporaryFolder folder;
  {
    LmdbWriter writer(folder / "db");
    writer.put("a", raw_datum(1, 2, 3, 1, 1));
    writer.put("b", std::string("\xff\xff\xff not a datum"));
    Datum shorter = raw_datum(1, 2, 3, 1, 1);
    shorter.set_height(9);
    writer.put("c", shorter);
    Datum picture = raw_datum(1, 2, 3, 1, 1);
    picture.set_encoded(true);
    picture.set_data("no picture");
    writer.put("d", picture);
    writer.finish();
  }
  const auto dataset = open_lmdb(folder / "db");
  Sample s;
  EXPECT_CONTAINS(message_of([&] { dataset->read(1, s); }), "(key 'b'): not a Datum");
  EXPECT_CONTAINS(message_of([&] { dataset->read(2, s); }), "1x9x3 needs 27 values, found 6");
  EXPECT_CONTAINS(message_of([&] { dataset->read(3, s); }), "(key 'd'): not an image");
}

TEST(LmdbWriter, KeysMustAscend) {
  const TemporaryFolder folder;
  LmdbWriter writer(folder / "db");
  writer.put("b", "x");
  writer.put("a", "x");
  EXPECT_CONTAINS(message_of([&] { writer.finish(); }), "key 'a' is not greater");
}

}  // namespace
}  // namespace kinet
