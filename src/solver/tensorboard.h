// TensorBoard event files: a sequence of records, each an Event message (tensorboard.proto).
//
// Record  = length (8 bytes, little endian), masked CRC-32C of those 8 bytes (4), the message,
//           masked CRC-32C of the message (4).
// Masked  = rotate_right(crc, 15) + 0xa282ead8 (mod 2^32).
// Reference: the TFRecord format of TensorFlow. Thread safety: none; the solver's thread writes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/solver/observer.h"

namespace kinet {

// CRC-32C (Castagnoli), reflected polynomial 0x82f63b78.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

// One record as it stands in the file.
std::string frame_record(std::string_view message);

// "events.out.tfevents.<seconds since 1970>.<host>.<process>"; TensorBoard looks for "tfevents".
std::string event_file_name();

// Writes scalars: train/loss, train/learning_rate, train/gradient_norm, speed/images_per_second,
// test/<output> (test1/... for a second test net). Throws a run-time Error when it cannot.
class TensorboardWriter : public SolverObserver {
 public:
  explicit TensorboardWriter(const std::filesystem::path& path);

  void on_display(const DisplayRecord& record) override;
  void on_test(const TestRecord& record) override;

 private:
  using Scalars = std::vector<std::pair<std::string, double>>;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write_scalars(int64_t step, const Scalars& scalars);
  void write_message(const std::string& message);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace kinet
