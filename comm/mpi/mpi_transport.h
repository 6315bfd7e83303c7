// Makes the MPI transport of this process. See mpi_transport.cc.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace kinet {

std::unique_ptr<Transport> make_mpi_transport(const TransportConfig& config);  // throws Error

}  // namespace kinet
