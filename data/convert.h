// Builds an LMDB database of Datums from images: a list of lines "path label", or a folder with one
// sub-folder a class.
//
// Labels of class folders count from 0 in alphabetical order of the folders' names, which are
// written to labels.txt inside the database's folder, a line each. Keys are "00000017_name".
// Output:  made under a temporary name in the same place and renamed, so that it is whole or
// absent.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/image_list.h"

namespace kinet {

struct ConvertOptions {
  std::string input;   // a list file, or a folder of class folders
  std::string output;  // folder of the database
  std::string root;    // put before the paths of a list
  bool shuffle = false;
  uint64_t seed = 1;          // of the shuffle
  int height = 0, width = 0;  // 0: as stored; else resized to exactly that
  bool grey = false;
  bool encoded = false;  // keep images compressed: the file's own bytes where nothing changed
  std::string encode_as = ".png";  // ... and this format where something did
  bool skip_bad = false;           // leave out images that cannot be read, and count them
  bool force = false;              // replace an existing database
};

struct ConvertReport {
  int64_t items = 0, skipped = 0;
  std::vector<std::string> classes;  // of class folders
  std::string first_skipped;         // why the first one was left out
};

using ConvertProgress = std::function<void(int64_t done, int64_t total)>;

ConvertReport convert_images(const ConvertOptions& options, const ConvertProgress& progress = {});

// The images of class folders, in order of class and file name; fills `classes`. Files that are no
// images by their names, and hidden ones, are left out.
std::vector<ImageListEntry> read_class_folders(const std::string& folder,
                                               std::vector<std::string>& classes);

}  // namespace kinet
