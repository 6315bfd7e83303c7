// Lists of image files: text files of lines "path label".
//
// Lines: the label is what follows the last space (or tab), so paths may hold spaces; a carriage
// return before the end of the line is left out; a blank line, a missing label or a label that is
// no whole number is an error that names the line. Blank lines at the very end are allowed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/image_library.h"

namespace kinet {

struct ImageListEntry {
  std::string path;  // as written
  int64_t label = 0;
  int line = 0;  // counted from 1
};

// Throws Error with every faulty line (at most ten), or when the list is missing or empty.
std::vector<ImageListEntry> read_image_list(const std::string& path);

// Where the files of a list are: relative paths begin at the root folder; without one, at the
// current folder or, when the first image that is found lies beside the list, at the list's folder.
class ImageListPaths {
 public:
  ImageListPaths(const std::string& list, const std::string& root,
                 const std::vector<ImageListEntry>& entries);
  std::string file(const ImageListEntry& entry) const { return base_ + entry.path; }

 private:
  std::string base_;  // "", or a folder with its slash
};

struct ImageListOptions {
  std::string root;           // see ImageListPaths
  int height = 0, width = 0;  // 0: as stored; else resized to exactly that
  ColorMode mode = ColorMode::kColor;
  bool check_files = true;  // say now which files are missing, not when their turn comes
};

// The images of a list as a data set; decoded at every read.
std::shared_ptr<const Dataset> open_image_list(const std::string& path,
                                               const ImageListOptions& options);

}  // namespace kinet
