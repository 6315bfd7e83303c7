// Stands for the toolkit's header of this name where kinet is built for the host emulation.
#pragma once

#include "cuda/emulation/cublas_api.h"
