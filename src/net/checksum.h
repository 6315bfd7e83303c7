// The checksum that ends kinet's binary files, models and states alike: a flipped bit anywhere in
// the file is noticed when it is read.
//
// Layout: the last field of the message, number 10001, fixed64: a tag of 3 bytes, then the hash
//         (hash_name) of every byte before the tag, least significant byte first.
// Caffe, which does not know the field, skips it; its own files have none.
// Invariant: FNV-1a is a bijection of its state at every byte, so one flipped bit always changes
//            the hash.
#pragma once

#include <string>

namespace kinet {

// Ends `bytes`, a serialized message, with its checksum.
void append_checksum(std::string& bytes);

// Throws Error when the file at `path`, whose content is `bytes`, is damaged. `wanted` says that
// its writer gave it a checksum, so that one which is missing was cut off.
void verify_checksum(const std::string& bytes, bool wanted, const std::string& path);

}  // namespace kinet
