// What a kernel sees under the host emulation: qualifiers, built-in variables, vector types,
// synchronisation, atomics, arithmetic, and the launch. See docs/cuda.md.
#pragma once

#include "cuda/emulation/atomics.h"
#include "cuda/emulation/builtins.h"
#include "cuda/emulation/launch.h"
#include "cuda/emulation/math.h"
#include "cuda/emulation/qualifiers.h"
#include "cuda/emulation/runtime_api.h"
#include "cuda/emulation/vector_types.h"
#include "cuda/emulation/warp.h"
