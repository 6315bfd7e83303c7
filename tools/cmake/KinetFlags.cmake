# Flags common to every target. kinet_flags is an INTERFACE library: linking it sets the language,
# the warnings, the sanitizers and the include folders.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# No -march=native: the program is built once and picks its kernels at run time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# With a sanitizer, optimising templates of libraries takes longer than their tests save by it. Loops
# over numbers are optimised all the same (kinet_debug_loops).
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
# A change inside libkinet.so need not link every test again.
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

find_program(KINET_CCACHE ccache)
if(KINET_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KINET_CCACHE})
endif()

set(KINET_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
add_library(kinet_flags INTERFACE)
target_include_directories(kinet_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_include_directories(kinet_flags SYSTEM INTERFACE
  ${KINET_GENERATED_DIR} ${KINET_GENERATED_DIR}/src/proto)
target_link_libraries(kinet_flags INTERFACE kinet_libraries)
# Only for C++: nvcc does not know these words (tools/cmake/KinetCudaToolkit.cmake).
function(kinet_cxx_options)
  target_compile_options(kinet_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
kinet_cxx_options(-Wall -Wextra -fno-semantic-interposition)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarm on every operator+(const char*, std::string), GCC bug 105651.
  kinet_cxx_options(-Wno-restrict)
endif()
if(KINET_WERROR)
  kinet_cxx_options(-Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These depend on what the optimiser happens to see, above all under a sanitizer.
    kinet_cxx_options(
      -Wno-error=maybe-uninitialized -Wno-error=array-bounds -Wno-error=stringop-overflow)
  endif()
endif()

if(KINET_SANITIZE)
  set(sanitize -fsanitize=${KINET_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_compile_options(kinet_flags INTERFACE ${sanitize})
  # The sanitizer's dlopen hides who calls it, and with that libkinet.so's RUNPATH; the old kind of
  # entry in the program is consulted all the same.
  target_link_options(kinet_flags INTERFACE ${sanitize} -Wl,--disable-new-dtags)
endif()
