# The GPU back-end built by nvcc. KINET_CUDA: AUTO builds it where the toolkit is found, ON stops
# without one, OFF leaves it out. Sets KINET_CUDA_BUILT, and KINET_CUDA_REASON where it is not.
#
# cudart is linked statically and libcuda is loaded by it at run time, so the library can be opened
# where there is no driver. cuBLAS, which is very large, is linked dynamically.
set(KINET_CUDA_ARCHITECTURES "75-real;80-real;90-real;90-virtual" CACHE STRING
  "GPU architectures to compile for, as CMAKE_CUDA_ARCHITECTURES")
set_property(CACHE KINET_CUDA PROPERTY STRINGS AUTO ON OFF)
set(KINET_CUDA_BUILT FALSE)
set(KINET_CUDA_REASON "KINET_CUDA is OFF")
if(NOT KINET_CUDA)
  return()
endif()
if(KINET_SANITIZE)  # nvcc's host code would need the same flags; the emulation is what is checked
  set(KINET_CUDA_REASON "left out of builds with a sanitizer")
  return()
endif()

# nvcc is seldom on PATH where its packages put it.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(KINET_NVCC nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(KINET_NVCC)
  if(KINET_NVCC)
    set(CMAKE_CUDA_COMPILER ${KINET_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${KINET_CUDA_ARCHITECTURES})
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
endif()
if(NOT CMAKE_CUDA_COMPILER OR NOT TARGET CUDA::cublas)
  set(KINET_CUDA_REASON "nvcc and cuBLAS: the CUDA toolkit; -D CMAKE_CUDA_COMPILER=/path/to/nvcc")
  if(NOT KINET_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "KINET_CUDA is ON, but there is no ${KINET_CUDA_REASON}")
  endif()
  return()
endif()
set(KINET_CUDA_BUILT TRUE)
if(KINET_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${KINET_CCACHE})
endif()

if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it yet
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
# Half of nvcc's time for a file goes into headers, once for each architecture; so several files are
# one compilation here too, every sixth together: neighbours in the alphabet are alike, and slow.
if(KINET_UNITY)
  list(LENGTH cuda_sources count)
  math(EXPR batches "(${count} + 5) / 6")
  foreach(batch RANGE 1 ${batches})
    math(EXPR i "${batch} - 1")
    set(text "")
    while(i LESS count)
      list(GET cuda_sources ${i} source)
      cmake_path(GET source FILENAME source)
      string(APPEND text "#include \"cuda/${source}\"\n")
      math(EXPR i "${i} + ${batches}")
    endwhile()
    set(together ${CMAKE_BINARY_DIR}/unity_cuda/${batch}.cu)
    file(CONFIGURE OUTPUT ${together} CONTENT "${text}" @ONLY)
    list(APPEND cuda_batches ${together})
  endforeach()
else()
  set(cuda_batches ${cuda_sources})
endif()
add_library(kinet_cuda SHARED ${cuda_batches})
target_link_libraries(kinet_cuda PRIVATE kinet_lib CUDA::cudart_static CUDA::cublas)
add_dependencies(kinet_cuda kinet_generated)
set_target_properties(kinet_cuda PROPERTIES
  CUDA_RUNTIME_LIBRARY Static
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  BUILD_RPATH "\$ORIGIN;${CUDAToolkit_LIBRARY_DIR}"
  INSTALL_RPATH "\$ORIGIN;${CUDAToolkit_LIBRARY_DIR}")
# The emulated library has the same symbols and may be open in the same process: nothing is shared.
target_compile_options(kinet_cuda PRIVATE
  -O3 -Xptxas=${KINET_CUDA_PTXAS_FLAGS}
  -Xcompiler=-Wall,-Wextra,-fno-gnu-unique,-fvisibility-inlines-hidden)
# fmt takes its constexpr away under nvcc, and then does not compile as C++20.
target_compile_definitions(kinet_cuda PRIVATE FMT_USE_CONSTEXPR=1)
if(KINET_WERROR)
  target_compile_options(kinet_cuda PRIVATE -Werror=all-warnings -Xcompiler=-Werror)
endif()
target_link_options(kinet_cuda PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic -Wl,--as-needed)
install(TARGETS kinet_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
