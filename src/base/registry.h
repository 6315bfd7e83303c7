// Types that register themselves by name: layers, optimizers, readers.
//
// A registry is filled by static objects before main() and only read afterwards, so reading needs
// no lock. A second registration of a name throws at start-up.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {

template <class Entry>
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  bool add(const std::string& name, Entry entry) {
    KINET_CHECK(entries_.emplace(name, std::move(entry)).second, "'{}' is registered twice", name);
    return true;
  }

  // The entry, or nullptr when there is none of that name.
  const Entry* find(const std::string& name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }

  // In alphabetical order.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, entry] : entries_) out.push_back(name);
    return out;
  }

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace kinet
