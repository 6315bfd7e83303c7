// The checksum, the framing of records, and which numbers go under which tag.
#include "src/solver/tensorboard.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "src/base/check.h"
#include "src/proto/kinet/tensorboard.pb.h"

namespace kinet {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bits reversed
constexpr uint32_t kMaskDelta = 0xa282ead8;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

// Little endian whatever the machine is.
void append_little_endian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

std::string frame_record(std::string_view message) {
  std::string out;
  append_little_endian(out, message.size(), 8);
  append_little_endian(out, masked_crc32c(out), 4);
  out += message;
  append_little_endian(out, masked_crc32c(message), 4);
  return out;
}

std::string event_file_name() {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  const auto seconds = static_cast<long long>(std::time(nullptr));
  return fmt::format("events.out.tfevents.{}.{}.{}", seconds, host, getpid());
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& path) : path_(path.string()) {
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (!file_) fail_runtime("{}: cannot be written: {}", path_, std::strerror(errno));
  Event event;
  event.set_wall_time(wall_time());
  event.set_file_version("brain.Event:2");
  write_message(event.SerializeAsString());
}

void TensorboardWriter::write_message(const std::string& message) {
  const std::string record = frame_record(message);
  const bool written = std::fwrite(record.data(), 1, record.size(), file_.get()) == record.size();
  if (!written || std::fflush(file_.get()) != 0) {
    fail_runtime("{}: cannot be written: {}", path_, std::strerror(errno));
  }
}

void TensorboardWriter::write_scalars(int64_t step, const Scalars& scalars) {
  Event event;
  event.set_wall_time(wall_time());
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    ScalarValue* scalar = event.mutable_summary()->add_value();
    scalar->set_tag(tag);
    scalar->set_simple_value(static_cast<float>(value));
  }
  write_message(event.SerializeAsString());
}

void TensorboardWriter::on_display(const DisplayRecord& record) {
  write_scalars(record.iteration, {{"train/loss", record.loss},
                                   {"train/learning_rate", record.learning_rate},
                                   {"train/gradient_norm", record.gradient_norm},
                                   {"speed/images_per_second", record.images_per_second}});
}

void TensorboardWriter::on_test(const TestRecord& record) {
  const std::string group = record.net == 0 ? "test/" : fmt::format("test{}/", record.net);
  Scalars scalars;
  int element = 0;
  for (size_t i = 0; i < record.outputs.size(); ++i) {
    const OutputValue& output = record.outputs[i];
    // An output of several elements (one a class) gives name, name.1, name.2 ...
    element = i > 0 && record.outputs[i - 1].name == output.name ? element + 1 : 0;
    const std::string suffix = element == 0 ? "" : fmt::format(".{}", element);
    scalars.emplace_back(fmt::format("{}{}{}", group, output.name, suffix), output.value);
  }
  if (!scalars.empty()) write_scalars(record.iteration, scalars);
}

}  // namespace kinet
