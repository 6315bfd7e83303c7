# Finds all libraries first and complains once, naming the Debian packages, so that nobody installs
# them one failed configure at a time. kinet_libraries carries what libkinet.so is linked to.
set(kinet_missing "")

# kinet_require(<true when found> <Debian package>)
macro(kinet_require found package)
  if(NOT ${found})
    list(APPEND kinet_missing ${package})
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenBLAS QUIET)
kinet_require(OpenBLAS_FOUND libopenblas-pthread-dev)
find_package(Protobuf QUIET)
kinet_require(Protobuf_FOUND libprotobuf-dev)
kinet_require(Protobuf_PROTOC_EXECUTABLE protobuf-compiler)
find_package(LMDB QUIET)
kinet_require(LMDB_FOUND liblmdb-dev)
find_package(ZLIB QUIET)
kinet_require(ZLIB_FOUND zlib1g-dev)
find_package(fmt QUIET)
kinet_require(fmt_FOUND libfmt-dev)
find_package(spdlog QUIET)
kinet_require(spdlog_FOUND libspdlog-dev)
find_package(OpenCVParts QUIET)
kinet_require(OpenCVParts_imgcodecs_FOUND libopencv-imgcodecs-dev)
kinet_require(OpenCVParts_imgproc_FOUND libopencv-imgproc-dev)
find_path(KINET_CLI11_INCLUDE_DIR CLI/CLI.hpp)
kinet_require(KINET_CLI11_INCLUDE_DIR libcli11-dev)
find_path(KINET_JSON_INCLUDE_DIR nlohmann/json.hpp)
kinet_require(KINET_JSON_INCLUDE_DIR nlohmann-json3-dev)
if(KINET_BUILD_TESTS)
  find_package(GTest QUIET)
  kinet_require(GTest_FOUND libgtest-dev)
endif()
# Optional: without it the verbs transport is left out of the build, and the summary says so.
find_path(KINET_VERBS_INCLUDE_DIR infiniband/verbs.h)
find_library(KINET_VERBS_LIBRARY ibverbs)
mark_as_advanced(KINET_VERBS_INCLUDE_DIR KINET_VERBS_LIBRARY)
set(KINET_VERBS FALSE)
if(KINET_VERBS_INCLUDE_DIR AND KINET_VERBS_LIBRARY)
  set(KINET_VERBS TRUE)
endif()
# Optional: without it there is no libkinet_mpi.so, and the transport says so. The C interface alone:
# the old C++ one (libmpi_cxx) is not wanted.
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI QUIET COMPONENTS CXX)
set(KINET_MPI ${MPI_CXX_FOUND})
if(KINET_BUILD_BENCH)
  find_package(benchmark QUIET)  # without it there is simply no bench; the summary says so
endif()

if(kinet_missing)
  list(REMOVE_DUPLICATES kinet_missing)
  list(JOIN kinet_missing " " kinet_missing)
  message(FATAL_ERROR "Missing libraries. Debian packages: ${kinet_missing}\n"
                      "hint: 'make deps' installs them.")
endif()

add_library(kinet_libraries INTERFACE)
target_link_libraries(kinet_libraries INTERFACE
  OpenBLAS::OpenBLAS protobuf::libprotobuf LMDB::LMDB ZLIB::ZLIB fmt::fmt spdlog::spdlog
  Threads::Threads ${CMAKE_DL_LIBS})
if(KINET_VERBS)
  target_link_libraries(kinet_libraries INTERFACE ${KINET_VERBS_LIBRARY})
endif()
target_include_directories(kinet_libraries SYSTEM INTERFACE
  ${KINET_CLI11_INCLUDE_DIR} ${KINET_JSON_INCLUDE_DIR})
