# One executable and one ctest entry for each tests/*_test.cc and tests/issues/*_test.cc; the other
# *.cc of tests/ are helpers shared by all. A file may say more about itself in its head:
#
#   // ctest: labels=unit,core,smoke timeout=60 serial
#
# Labels, by default: *_e2e_test.cc integration; all others unit,core. `make test` runs unit and
# integration, `make check` core under the sanitizers and cuda_check without them, `make smoke` smoke.
# kernels=a,b: tests/cuda/a.cu and b.cu, built for the emulation of CUDA, belong to the test; with the
# word `checked` in its check mode (KinetCuda.cmake).
# device: a test of the CUDA back-end as a library. <name> runs it emulated in mode fast, the ctest
# entry <name>_checked in check mode, and the program cuda_x_gpu_test, where nvcc is found, on a real
# device (label gpu).
# *_opencv_test.cc is linked to OpenCV's dnn module; cli*_test.cc to the objects of src/cli.
# A test of CUDA kernels in the host emulation names the .cu files of cuda/ that it is built with:
#
#   // cuda: conv_sums gemm
#
# With the word `gpu` nvcc compiles it too, as cuda_x_gpu_test for a real device, over libkinet_cuda.so.
set(kinet_default_timeout 120)  # seconds

file(GLOB test_sources CONFIGURE_DEPENDS tests/*_test.cc tests/issues/*_test.cc)
file(GLOB test_helpers CONFIGURE_DEPENDS tests/*.cc)
list(FILTER test_helpers EXCLUDE REGEX "_test\\.cc$")

add_library(kinet_test_flags INTERFACE)
target_link_libraries(kinet_test_flags INTERFACE kinet_lib GTest::gtest)
target_compile_definitions(kinet_test_flags INTERFACE
  KINET_SOURCE_DIR="${CMAKE_SOURCE_DIR}" KINET_BINARY_DIR="${CMAKE_BINARY_DIR}")
if(test_helpers)
  add_library(kinet_test_helpers OBJECT ${test_helpers})
  target_link_libraries(kinet_test_helpers PUBLIC kinet_test_flags)
  add_dependencies(kinet_test_helpers kinet_generated)
endif()

# Reads the "// ctest:" lines of <source> into labels, timeout, serial, kernels, checked, device and
# gpu of the caller.
function(kinet_read_test_head source)
  set(labels unit core)
  if(source MATCHES "_e2e_test\\.cc$")
    set(labels integration)
  endif()
  set(timeout ${kinet_default_timeout})
  set(serial FALSE)
  file(STRINGS ${source} line REGEX "^// ctest:")
  if(line MATCHES "labels=([a-z_,]+)")
    string(REPLACE "," ";" labels ${CMAKE_MATCH_1})
  endif()
  if(line MATCHES "timeout=([0-9]+)")
    set(timeout ${CMAKE_MATCH_1})
  endif()
  if(line MATCHES " serial")
    set(serial TRUE)
  endif()
  set(kernels "")
  if(line MATCHES "kernels=([a-z0-9_,]+)")
    string(REPLACE "," ";" kernels ${CMAKE_MATCH_1})
    list(TRANSFORM kernels REPLACE "(.+)" "tests/cuda/\\1.cu")
  endif()
  set(checked "")
  if(line MATCHES " checked")
    set(checked CHECKED)
  endif()
  set(device FALSE)
  if(line MATCHES " device")
    set(device TRUE)
  endif()
  set(gpu FALSE)
  if(line MATCHES " gpu")
    set(gpu TRUE)
  endif()
  if(KINET_SANITIZE)
    math(EXPR timeout "${timeout} * 4")  # a sanitizer costs about that much
  endif()
  set(labels ${labels} PARENT_SCOPE)
  set(timeout ${timeout} PARENT_SCOPE)
  set(serial ${serial} PARENT_SCOPE)
  set(kernels ${kernels} PARENT_SCOPE)
  set(checked ${checked} PARENT_SCOPE)
  set(device ${device} PARENT_SCOPE)
  set(gpu ${gpu} PARENT_SCOPE)
endfunction()

# A program of label gpu; the target gpu_tests builds all of them. Where there is no device they are
# skipped and say so.
add_custom_target(gpu_tests)
function(kinet_gpu_test program timeout)
  set_target_properties(${program} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${program} PRIVATE KINET_TEST_ON_GPU)
  target_link_libraries(${program} PRIVATE
    kinet_test_flags kinet_test_helpers GTest::gtest_main)
  add_dependencies(${program} kinet_generated kinet_cuda)
  add_dependencies(gpu_tests ${program})
  add_test(NAME ${program} COMMAND ${program} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set_tests_properties(${program} PROPERTIES LABELS gpu TIMEOUT ${timeout})
endfunction()

# The form for a real device of a test that calls kernels: see "gpu" above.
function(kinet_add_gpu_kernel_test name source timeout)
  string(REGEX REPLACE "_test$" "_gpu_test" program ${name})
  set(generated ${CMAKE_BINARY_DIR}/gpu_tests/${program}.cu)
  file(CONFIGURE OUTPUT ${generated} CONTENT "#include \"${source}\"\n" @ONLY)
  add_executable(${program} ${generated})
  target_compile_definitions(${program} PRIVATE FMT_USE_CONSTEXPR=1)
  target_link_libraries(${program} PRIVATE kinet_lib kinet_cuda CUDA::cudart_static CUDA::cublas)
  set_target_properties(${program} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  kinet_gpu_test(${program} ${timeout})
endfunction()

# The other two forms of a test of the back-end: see "device" above.
function(kinet_add_device_tests name source timeout)
  if(TARGET kinet_cuda_checked)
    add_dependencies(${name} kinet_cuda_checked)
    add_test(NAME ${name}_checked COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(${name}_checked PROPERTIES
      LABELS "unit;cuda_check" TIMEOUT ${timeout} ENVIRONMENT "KINET_CUDA_LIBRARY=checked")
  endif()
  if(NOT TARGET kinet_cuda OR KINET_TEST_LABEL)
    return()
  endif()
  string(REGEX REPLACE "_test$" "_gpu_test" program ${name})
  kinet_program(${program} ${source})
  kinet_gpu_test(${program} ${timeout})
endfunction()

function(kinet_add_test source)
  cmake_path(GET source STEM name)
  kinet_read_test_head(${source})
  if(KINET_TEST_LABEL AND NOT KINET_TEST_LABEL IN_LIST labels)
    return()
  endif()
  file(STRINGS ${source} layers REGEX "^// cuda: " LIMIT_COUNT 1)
  if(layers)
    string(REGEX MATCHALL "[a-z0-9_]+" layers "${layers}")
    list(POP_FRONT layers)  # "cuda" itself
    list(TRANSFORM layers REPLACE "(.+)" "cuda/\\1.cu")
    kinet_cuda_emulated_test(${name} ${source}
      LABELS ${labels} TIMEOUT ${timeout} CUDA ${layers})
    if(gpu AND TARGET kinet_cuda AND NOT KINET_TEST_LABEL)
      kinet_add_gpu_kernel_test(${name} ${source} ${timeout})
    endif()
    return()
  endif()
  if(name MATCHES "_opencv_test$" AND NOT OpenCVParts_dnn_FOUND)
    message(STATUS "Left out: ${name} (needs OpenCV's dnn module, package libopencv-dnn-dev)")
    return()
  endif()
  if(name MATCHES "^verbs_" AND NOT KINET_VERBS)
    message(STATUS "Left out: ${name} (needs libibverbs, package libibverbs-dev)")
    return()
  endif()
  if(name MATCHES "^device_" AND NOT KINET_CUDA_EMULATION)
    message(STATUS "Left out: ${name} (needs the emulation of CUDA, which the thread sanitizer cannot "
                   "follow)")
    return()
  endif()
  if(name MATCHES "^cuda_" AND (NOT KINET_CUDA_EMULATION OR checked AND NOT KINET_CUDA_CHECK_MODE))
    message(STATUS "Left out: ${name} (the emulation of CUDA needs g++ on x86-64 and no sanitizer "
                   "of its own for check mode, no thread sanitizer at all)")
    return()
  endif()
  kinet_program(${name} ${source})
  if(kernels)
    add_library(${name}_kernels OBJECT)
    kinet_cuda_emulated_sources(${name}_kernels ${checked} ${kernels})
    target_link_libraries(${name} PRIVATE ${name}_kernels)
  elseif(name MATCHES "^cuda_|^device_")
    target_link_libraries(${name} PRIVATE kinet_cuda_emulation)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE kinet_test_flags GTest::gtest_main)
  add_dependencies(${name} kinet_generated)
  if(NOT name MATCHES "^cuda_|^device_|_opencv_test$")
    kinet_precompile_test(${name})
  endif()
  if(test_helpers)
    target_link_libraries(${name} PRIVATE kinet_test_helpers)
  endif()
  if(name MATCHES "_opencv_test$")
    target_link_libraries(${name} PRIVATE
      OpenCVParts::dnn OpenCVParts::imgcodecs OpenCVParts::imgproc)
  endif()
  if(name MATCHES "^cli" AND TARGET src_cli)
    target_link_libraries(${name} PRIVATE src_cli)
  endif()
  if(device)
    add_dependencies(${name} kinet_cuda_emulated)
    kinet_add_device_tests(${name} ${source} ${timeout})
  endif()
  foreach(needed kinet kinet_image kinet_mpi ${kinet_test_programs})  # run or opened by tests
    if(TARGET ${needed})
      add_dependencies(${name} ${needed})
    endif()
  endforeach()
  if(name MATCHES "^device_|^cli_device" AND TARGET kinet_cuda_emulated)
    add_dependencies(${name} kinet_cuda_emulated)
  endif()
  if(name MATCHES "^launch" AND TARGET example_ranks)
    add_dependencies(${name} example_ranks)
  endif()
  if(name MATCHES "^successor" AND TARGET example_neighbours)
    add_dependencies(${name} example_neighbours)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set_tests_properties(${name} PROPERTIES
    LABELS "${labels}" TIMEOUT ${timeout} RUN_SERIAL ${serial}
    ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1")
endfunction()

# Programs that tests run as processes: tests/programs/x.cc -> build/tests/programs/x.
file(GLOB program_sources CONFIGURE_DEPENDS tests/programs/*.cc)
set(kinet_test_programs "")
foreach(source ${program_sources})
  cmake_path(GET source STEM name)
  kinet_program(test_program_${name} ${source})
  set_target_properties(test_program_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/programs)
  add_dependencies(test_program_${name} kinet_generated)
  list(APPEND kinet_test_programs test_program_${name})
endforeach()

foreach(source ${test_sources})
  kinet_add_test(${source})
endforeach()

# The script that somebody with a GPU runs, on the emulated device.
if(TARGET kinet_cuda_emulated AND TARGET kinet AND NOT KINET_SANITIZE AND NOT KINET_TEST_LABEL)
  add_test(NAME run_on_device_emulated
    COMMAND ${CMAKE_SOURCE_DIR}/tests/gpu/run_on_device.sh --emulated --quick --no-build
            --build ${CMAKE_BINARY_DIR})
  set_tests_properties(run_on_device_emulated PROPERTIES LABELS integration TIMEOUT 120)
endif()

# Tests that need RDMA devices: built to build/tests/rdma_vm, run by `make rdma` in an emulated
# machine and never by ctest.
file(GLOB rdma_sources CONFIGURE_DEPENDS tests/rdma_vm/*_test.cc)
if(KINET_VERBS AND NOT KINET_TEST_LABEL)
  foreach(source ${rdma_sources})
    cmake_path(GET source STEM name)
    kinet_program(${name} ${source})
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/rdma_vm)
    target_link_libraries(${name} PRIVATE kinet_test_flags kinet_test_helpers GTest::gtest_main)
    add_dependencies(${name} kinet_generated)
  endforeach()
endif()
