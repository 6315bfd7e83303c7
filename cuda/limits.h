// What a device can do at most, from its clocks and widths.
#pragma once

#include "cuda/layer.h"
#include "src/net/device.h"

namespace kinet {

// Limits that cannot be told (an architecture that is not known here, a driver that hides a clock)
// are 0. REQUIRES: `properties` are those of device `id`
DeviceLimits limits_of(const cudaDeviceProp& properties, int id);

}  // namespace kinet
