// Drives communicators over transport sim from one thread: whoever has news acts, and when nobody
// has, the clock moves on. What ranks do has to be asynchronous: nobody may wait.
// Thread safety: one thread drives.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/transports/sim.h"

namespace kinet {

// Until done(), or until virtual time `until`, or until nothing is going to happen any more.
// Killed ranks are left alone. Returns done().
bool run_virtual(SimWorld& world, std::span<const std::unique_ptr<Communicator>> ranks,
                 const std::function<bool()>& done, double until);

// The communicators of a new run of `size` ranks in `world`, by rank, all links up, at the virtual
// time at which the world stands. Threads do the set-up, in which ranks wait for each other.
std::vector<std::unique_ptr<Communicator>> make_virtual_ranks(
    const std::shared_ptr<SimWorld>& world, int size, const CommOptions& options = {});

}  // namespace kinet
