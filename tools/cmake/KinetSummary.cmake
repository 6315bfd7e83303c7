# The configure summary: what was found and what that means. The parts below "looked for" are not
# linked by anything yet, and the text says so.
find_path(KINET_HDF5_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
mark_as_advanced(KINET_HDF5_INCLUDE_DIR KINET_CLI11_INCLUDE_DIR KINET_JSON_INCLUDE_DIR)

# kinet_row(<name> <true when found> <text when found> <text when not>)
function(kinet_row name found yes no)
  string(LENGTH "${name}" length)
  math(EXPR pad "14 - ${length}")
  string(REPEAT " " ${pad} spaces)
  if(found)
    message(STATUS "  ${name}${spaces}${yes}")
  else()
    message(STATUS "  ${name}${spaces}not found: ${no}")
  endif()
endfunction()

set(build_text "${CMAKE_BUILD_TYPE}")
if(KINET_SANITIZE)
  string(APPEND build_text ", sanitizers ${KINET_SANITIZE}")
endif()
if(KINET_WERROR)
  string(APPEND build_text ", warnings are errors")
endif()

message(STATUS "kinet ${PROJECT_VERSION}: ${build_text}, ${CMAKE_CXX_COMPILER_ID} "
               "${CMAKE_CXX_COMPILER_VERSION}")
kinet_row("OpenBLAS" TRUE "${OpenBLAS_VERSION}: matrix products on the CPU" "")
kinet_row("OpenCV" TRUE "${OpenCVParts_VERSION}: image reading, in libkinet_image.so" "")
kinet_row("OpenCV dnn" "${OpenCVParts_dnn_FOUND}" "tests compare our models with it"
  "those tests are left out (libopencv-dnn-dev)")
kinet_row("protobuf" TRUE "${Protobuf_VERSION}: .caffemodel, .solverstate, Datum" "")
kinet_row("LMDB" TRUE "${LMDB_VERSION}: Data layer, kinet convert" "")
kinet_row("GoogleTest" "${GTest_FOUND}" "make test" "no tests (KINET_BUILD_TESTS=OFF)")
kinet_row("Benchmark" "${benchmark_FOUND}" "make bench" "no make bench (libbenchmark-dev)")
kinet_row("ccache" "${KINET_CCACHE}" "repeated builds are quick" "every build compiles anew")
kinet_row("verbs" "${KINET_VERBS}" "RDMA transport over ${KINET_VERBS_LIBRARY}"
  "no RDMA transport (libibverbs-dev)")
kinet_row("MPI" "${KINET_MPI}" "MPI transport, in libkinet_mpi.so"
  "no MPI transport (libopenmpi-dev, openmpi-bin)")
kinet_row("CUDA" "${KINET_CUDA_BUILT}"
  "${CMAKE_CUDA_COMPILER_VERSION}: GPU back-end for ${KINET_CUDA_ARCHITECTURES}, in libkinet_cuda.so"
  "no GPU back-end (${KINET_CUDA_REASON})")
message(STATUS "Looked for, used by nothing in this version:")
kinet_row("HDF5" "${KINET_HDF5_INCLUDE_DIR}" "headers are here; no HDF5 layers yet"
  "no HDF5 layers in this version either")
