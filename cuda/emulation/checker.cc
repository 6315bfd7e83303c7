#include "cuda/emulation/checker.h"

#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "cuda/emulation/builtins.h"
#include "cuda/emulation/engine.h"
#include "src/base/check.h"

namespace kinet::emulation {

thread_local Checker* active_checker = nullptr;

Checker& checker() {
  static Checker* const one = new Checker;  // as engine()
  return *one;
}

namespace {

constexpr size_t kCellBytes = 4;
constexpr size_t kShadowBytes = Arena::kSpace / kCellBytes * sizeof(Cell);

struct ImageSearch {
  uintptr_t code;
  std::vector<std::pair<uintptr_t, uintptr_t>> parts;
};

int collect_image(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<ImageSearch*>(data);
  bool here = false;
  std::vector<std::pair<uintptr_t, uintptr_t>> parts;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    parts.emplace_back(begin, begin + part.p_memsz);
    here |= search->code - begin < part.p_memsz;
  }
  if (here) search->parts = std::move(parts);
  return here ? 1 : 0;
}

const char* verb(AccessKind kind) {
  return kind == AccessKind::kRead ? "reads" : kind == AccessKind::kWrite ? "writes" : "updates";
}

}  // namespace

Checker::~Checker() {
  if (shadow_ != nullptr) munmap(shadow_, kShadowBytes);
}

void Checker::map_shadow() {
  if (shadow_ != nullptr) return;
  void* space = mmap(nullptr, kShadowBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KINET_CHECK(space != MAP_FAILED,
              "no address space for the check mode of the CUDA emulation\n"
              "hint: it reserves (and hardly uses) {} GiB; see 'ulimit -v'",
              kShadowBytes >> 30);
  shadow_ = static_cast<Cell*>(space);
}

void Checker::find_image(const void* kernel) {
  ImageSearch search{reinterpret_cast<uintptr_t>(kernel), {}};
  dl_iterate_phdr(collect_image, &search);
  image_.clear();
  for (const auto& [begin, end] : search.parts) {
    image_.push_back({reinterpret_cast<const char*>(begin), reinterpret_cast<const char*>(end)});
  }
}

bool Checker::in_image(const char* address, size_t bytes) const {
  return std::any_of(image_.begin(), image_.end(), [&](const Span& part) {
    return address >= part.begin && address + bytes <= part.end;
  });
}

void Checker::begin_launch(const Launch& launch) {
  scheduler_ = &engine().scheduler;
  device_ = &engine().device;
  shared_ = &engine().shared;
  map_shadow();
  find_image(launch.kernel);
  ++launch_;
  known_.clear();
  const auto* arguments = static_cast<const char*>(launch.arguments.get());
  arguments_ = {arguments, arguments + launch.argument_bytes};
  // Parts may begin in the middle of a cell.
  static_cells_.resize(shared_->statics().bytes / kCellBytes + 2);
  dynamic_cells_.resize(shared_->dynamic().bytes / kCellBytes + 2);
  clocks_.assign(static_cast<size_t>(launch.block.x) * launch.block.y * launch.block.z, Clocks{});
  clocks_used_ = true;
  accesses_ = 0;
  const Engine& e = engine();
  statistics_.begin_launch(e.options.access_statistics || !e.access_file.empty(), launch.site.what,
                           clocks_.size());
  active_checker = this;
}

void Checker::begin_block() {
  if (statistics_.on()) statistics_.end_block();  // the one before
  ++blocks_;
  if (!clocks_used_) return;
  for (size_t thread = 0; thread < clocks_.size(); ++thread) {
    clocks_[thread].fill(0);
    clocks_[thread][thread % kWarpLanes] = 1;
  }
  clocks_used_ = false;
}

void Checker::end_launch() {
  if (statistics_.on()) statistics_.end_block();
  active_checker = nullptr;
  engine().counters.accesses += accesses_;
}

void Checker::warp_met(size_t first_thread, unsigned arrived,
                       const std::array<const WarpRequest*, kWarpLanes>& requests) {
  if (requests[static_cast<size_t>(std::countr_zero(arrived))]->kind != WarpKind::kSync) return;
  Clocks known{};
  for (size_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((arrived >> lane & 1u) == 0) continue;
    const Clocks& own = clocks_[first_thread + lane];
    for (size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], own[i]);
  }
  for (size_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((arrived >> lane & 1u) == 0) continue;
    Clocks& own = clocks_[first_thread + lane];
    own = known;
    ++own[lane];
  }
  enter(scheduler_->thread());  // the last lane to arrive just goes on
  clocks_used_ = true;
}

void Checker::access(const void* pointer, size_t bytes, AccessKind kind, const void* pc) {
  const auto* address = static_cast<const char*>(pointer);
  const auto* own = reinterpret_cast<const char*>(&builtins);
  if (static_cast<size_t>(address - own) < sizeof(builtins)) return;
  if (scheduler_->on_fibre(address)) return;
  ++accesses_;
  if (device_->contains(address)) return global_access(address, bytes, kind, pc);
  if (shared_->statics().contains(address)) {
    return shared_access(shared_->statics(), static_cells_, address, bytes, kind, pc);
  }
  if (shared_->dynamic_space().contains(address)) {
    return shared_access(shared_->dynamic(), dynamic_cells_, address, bytes, kind, pc);
  }
  if (address >= arguments_.begin && address + bytes <= arguments_.end) return;
  const Arena& pinned = engine().pinned;
  if (pinned.covers(address, bytes) || in_image(address, bytes)) return;
  if (pinned.contains(address)) {
    tell(Fault::kOutOfBounds, pc,
         fmt::format("{} {} {} bytes at {}", running_thread(), verb(kind), bytes,
                     pinned.describe(address)));
  } else {
    tell(Fault::kHostMemory, pc,
         fmt::format("{} {} {} bytes at {}, which is neither device memory, nor shared memory, nor "
                     "its own",
                     running_thread(), verb(kind), bytes, pointer));
  }
  scheduler_->end_thread();
}

void Checker::global_access(const char* address, size_t bytes, AccessKind kind, const void* pc) {
  const Arena& arena = *device_;
  const Allocation* allocation = arena.find(address);
  if (allocation == nullptr || address < allocation->begin ||
      static_cast<size_t>(address - allocation->begin) + bytes > allocation->bytes) {
    tell(Fault::kOutOfBounds, pc,
         fmt::format("{} {} {} bytes at {}", running_thread(), verb(kind), bytes,
                     arena.describe(address)));
    scheduler_->end_thread();
  }
  if (statistics_.on()) statistics_.add(pc, kind, false, now_.thread, address, bytes);
  const size_t begin = arena.offset(address), end = begin + bytes;
  for (size_t cell = begin / kCellBytes; cell * kCellBytes < end; ++cell) {
    const size_t first = std::max(begin, cell * kCellBytes) % kCellBytes;
    const size_t last = std::min(end, (cell + 1) * kCellBytes) - cell * kCellBytes;
    Cell& shadow = shadow_[cell];
    if (shadow.epoch != launch_) {
      shadow = Cell{};
      shadow.epoch = launch_;
    }
    const auto mask = static_cast<uint8_t>((1u << last) - (1u << first));
    touch(shadow, mask, kind, address, pc);
  }
}

void Checker::shared_access(const Segment& segment, std::vector<Cell>& cells, const char* address,
                            size_t bytes, AccessKind kind, const void* pc) {
  const auto offset = address - segment.begin;
  if (offset < 0 || static_cast<size_t>(offset) + bytes > segment.bytes) {
    tell(Fault::kOutOfBounds, pc,
         fmt::format("{} {} {} bytes at {}", running_thread(), verb(kind), bytes,
                     describe(address)));
    scheduler_->end_thread();
  }
  if (statistics_.on()) statistics_.add(pc, kind, true, now_.thread, address, bytes);
  const auto begin = static_cast<size_t>(offset), end = begin + bytes;
  for (size_t cell = begin / kCellBytes; cell * kCellBytes < end; ++cell) {
    const size_t first = std::max(begin, cell * kCellBytes) % kCellBytes;
    const size_t last = std::min(end, (cell + 1) * kCellBytes) - cell * kCellBytes;
    Cell& shadow = cells[cell];
    if (shadow.epoch != blocks_) {
      shadow = Cell{};
      shadow.epoch = blocks_;
    }
    const auto mask = static_cast<uint8_t>((1u << last) - (1u << first));
    if (kind != AccessKind::kWrite && (shadow.initialised & mask) != mask) {
      if (!known(Fault::kUninitialised, pc)) {
        tell(Fault::kUninitialised, pc,
             fmt::format("{} {} {}, which no thread of the block has written", running_thread(),
                         verb(kind), describe(address)));
      }
      shadow.initialised |= mask;  // once for each place is enough
    }
    if (kind != AccessKind::kRead) shadow.initialised |= mask;
    touch(shadow, mask, kind, address, pc);
  }
}

bool Checker::ordered(const AccessRecord& before) const {
  if (before.block != now_.block) return false;
  if (before.thread == now_.thread || before.barriers < now_.barriers) return true;
  if (before.thread / kWarpLanes != now_.thread / kWarpLanes) return false;
  return clocks_[now_.thread][before.thread % kWarpLanes] >= before.clock;
}

// The same thread has touched these bytes in the same way with nothing in between.
bool Checker::touched_before(const Cell& cell, uint8_t bytes, AccessKind kind) const {
  const AccessRecord& record = kind == AccessKind::kRead ? cell.reads[0] : cell.write;
  return (record.bytes & bytes) == bytes && record.thread == now_.thread &&
         record.block == now_.block && record.barriers == now_.barriers &&
         record.clock == now_.clock && record.atomic == (kind == AccessKind::kAtomic) &&
         (kind == AccessKind::kRead || ((cell.reads[0].bytes | cell.reads[1].bytes) & bytes) == 0);
}

void Checker::touch(Cell& cell, uint8_t bytes, AccessKind kind, const char* address,
                    const void* pc) {
  if (touched_before(cell, bytes, kind)) return;
  const bool atomic = kind == AccessKind::kAtomic;
  if ((cell.write.bytes & bytes) != 0 && !(atomic && cell.write.atomic) && !ordered(cell.write)) {
    race(cell.write, true, kind, address, pc);
  }
  AccessRecord now = now_;
  now.bytes = bytes;
  now.atomic = atomic;
  const auto same = [&](const AccessRecord& r) {
    return r.bytes != 0 && r.thread == now.thread && r.block == now.block;
  };
  const auto renew = [&](AccessRecord& r) {
    const bool same_time = r.barriers == now.barriers && r.clock == now.clock;
    const uint8_t others = same_time && r.atomic == now.atomic ? r.bytes : 0;
    r = now;
    r.bytes |= others;
  };
  if (kind == AccessKind::kRead) {
    auto& [newest, older] = cell.reads;
    if (!same(newest)) {
      older = newest;
      newest.bytes = 0;
    }
    renew(newest);
    return;
  }
  for (AccessRecord& read : cell.reads) {
    if ((read.bytes & bytes) == 0) continue;
    if (!ordered(read)) race(read, false, kind, address, pc);
    // What is ordered behind this write is ordered behind the read.
    read.bytes &= static_cast<uint8_t>(~bytes);
  }
  if (!same(cell.write)) cell.write.bytes = 0;
  renew(cell.write);
}

void Checker::race(const AccessRecord& before, bool before_writes, AccessKind kind,
                   const char* address, const void* pc) {
  if (known(Fault::kRace, pc)) return;
  const Launch& launch = engine().scheduler.launch();
  const dim3 &block = launch.block, &grid = launch.grid;
  const unsigned t = before.thread, b = before.block;
  tell(Fault::kRace, pc,
       fmt::format("{} {} {}, which thread ({}, {}, {}) of block ({}, {}, {}) {} before, and "
                   "nothing orders the two",
                   running_thread(), verb(kind), describe(address), t % block.x,
                   t / block.x % block.y, t / (block.x * block.y), b % grid.x, b / grid.x % grid.y,
                   b / (grid.x * grid.y),
                   !before_writes  ? "read"
                   : before.atomic ? "updated"
                                   : "wrote"));
}

std::string Checker::describe(const void* address) const {
  const Engine& e = engine();
  const auto* byte = static_cast<const char*>(address);
  if (e.shared.statics().contains(address)) {
    return fmt::format("byte {} of the module's static shared memory",
                       byte - e.shared.statics().begin);
  }
  if (e.shared.dynamic_space().contains(address)) {
    return fmt::format("byte {} of {} bytes of dynamic shared memory",
                       byte - e.shared.dynamic().begin, e.shared.dynamic().bytes);
  }
  return e.device.describe(address);
}

void Checker::misaligned(const void* address, const char* file, int line, size_t alignment) {
  report(Fault::kMisaligned, place_of(file, line),
         fmt::format("{} uses {}, an address that is no multiple of {} as the type asks",
                     running_thread(), describe(address), alignment));
  scheduler_->end_thread();
}

bool Checker::known(Fault fault, const void* pc) {
  const auto key = reinterpret_cast<uintptr_t>(pc) * 16 + static_cast<uint64_t>(fault);
  const auto found = known_.find(key);
  if (found == known_.end()) return false;
  std::vector<Report>& reports = engine().reports;
  if (found->second < reports.size()) ++reports[found->second].count;
  return true;
}

void Checker::tell(Fault fault, const void* pc, const std::string& text) {
  if (known(fault, pc)) return;
  auto place = places_.find(pc);
  if (place == places_.end()) place = places_.emplace(pc, place_of(pc)).first;
  report(fault, place->second, text);
  const std::vector<Report>& reports = engine().reports;
  const std::string kernel = engine().scheduler.launch().site.what;
  const auto told = std::find_if(reports.begin(), reports.end(), [&](const Report& r) {
    return r.fault == fault && r.place == place->second && r.kernel == kernel;
  });
  const auto key = reinterpret_cast<uintptr_t>(pc) * 16 + static_cast<uint64_t>(fault);
  known_[key] = static_cast<size_t>(told - reports.begin());
}

}  // namespace kinet::emulation
