// Whole files: read, and write so that a reader never sees half of one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kinet {

// Throws Error when `path` exists and is no regular file. A pipe or a device may keep a reader
// waiting for ever, and is destroyed by a rename onto it. What does not exist passes.
void require_regular_file(const std::filesystem::path& path);

// The bytes of `path`, a regular file. Throws Error naming the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

// Writes to a temporary name in the same folder, flushes to the disk, then renames. On failure the
// temporary is removed, an existing `path` is left as it was, and a run-time Error is thrown. A
// `path` that exists and is no regular file is left alone: set-up Error.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

// Finds out now what would fail later: creates and removes a probe file in `folder` (which is made
// when missing and make is true), named as write_file_atomic() would for a file `name`. Throws a
// set-up Error that names the folder and the reason.
void check_writable(const std::filesystem::path& folder, bool make,
                    const std::string& name = "probe");

}  // namespace kinet
