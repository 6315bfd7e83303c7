# Precompiled standard headers: a third of the time of a build from nothing goes into reading them.
#
#   kinet_precompile(<target>)        a header of its own for a target of many sources
#   kinet_precompile_test(<target>)   the one that all tests share, with GoogleTest
#
# ccache keeps such compilations only when it is told to (CCACHE_SLOPPINESS, which the Makefile sets);
# without that, repeated builds are worth more than the first one, and nothing is precompiled.
set(precompile ON)
if(KINET_CCACHE AND NOT "$ENV{CCACHE_SLOPPINESS}" MATCHES "pch_defines")
  set(precompile OFF)
endif()
option(KINET_PRECOMPILE "Precompile the headers of the standard library" ${precompile})

set(kinet_precompiled ${CMAKE_SOURCE_DIR}/tools/cmake/precompiled.h)

function(kinet_precompiled_options target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache needs it
  endif()
endfunction()

function(kinet_precompile target)
  if(KINET_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${kinet_precompiled})
    kinet_precompiled_options(${target})
  endif()
endfunction()

# What most tests spend their time in is compiled elsewhere.
function(kinet_test_optimization target)
  target_compile_options(${target} PRIVATE -O1)
endfunction()

function(kinet_precompile_test target)
  kinet_test_optimization(${target})
  if(NOT KINET_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET kinet_test_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/test_headers.cc CONTENT "int main() {}\n")
    kinet_program(kinet_test_headers ${CMAKE_BINARY_DIR}/generated/test_headers.cc)
    set_target_properties(kinet_test_headers PROPERTIES EXCLUDE_FROM_ALL ON)
    target_link_libraries(kinet_test_headers PRIVATE kinet_test_flags)
    kinet_test_optimization(kinet_test_headers)
    target_precompile_headers(kinet_test_headers PRIVATE ${kinet_precompiled} <gtest/gtest.h>)
    kinet_precompiled_options(kinet_test_headers)
  endif()
  target_precompile_headers(${target} REUSE_FROM kinet_test_headers)
  kinet_precompiled_options(${target})
endfunction()
