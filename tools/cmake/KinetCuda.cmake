# The host emulation of CUDA (cuda/emulation, docs/cuda.md) and functions that build .cu files for
# it. It needs no CUDA toolkit.
#
#   kinet_cuda_emulation                the engine, libkinet_cuda_emulation.so
#   kinet_cuda_emulated_sources(...)    .cu files as sources of a target there is
#   kinet_cuda_emulated_library(...)    a shared library of .cu files
#   kinet_cuda_emulated_test(...)       a test over .cu files, in both modes
#
# Mode fast is plain C++. Mode CHECKED has every memory access call a function of the engine: the
# compiler puts the calls there for its thread sanitizer, whose library is not linked; so these
# targets carry the flag when compiling and not when linking, and there are none in builds with a
# sanitizer, nor with compilers other than g++ (clang turns copies of structures into plain memcpy
# calls that nothing sees).
if(NOT KINET_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(KINET_CUDA_CHECK_MODE TRUE)
else()
  set(KINET_CUDA_CHECK_MODE FALSE)
endif()
# The thread sanitizer cannot follow stacks that the program switches by itself.
if(KINET_SANITIZE MATCHES "thread")
  set(KINET_CUDA_EMULATION FALSE)
else()
  set(KINET_CUDA_EMULATION TRUE)
endif()

set(kinet_emulation_include ${CMAKE_SOURCE_DIR}/cuda/emulation/include)

if(KINET_CUDA_EMULATION)
  file(GLOB emulation_sources CONFIGURE_DEPENDS cuda/emulation/*.cc)
  if(NOT KINET_CUDA_CHECK_MODE)
    list(FILTER emulation_sources EXCLUDE REGEX "_hooks\\.cc$")
  endif()
  add_library(kinet_cuda_emulation SHARED ${emulation_sources})
  target_link_libraries(kinet_cuda_emulation PUBLIC kinet_flags)
  kinet_debug_loops(kinet_cuda_emulation)
  target_include_directories(kinet_cuda_emulation BEFORE PUBLIC ${kinet_emulation_include})
  target_link_options(kinet_cuda_emulation PRIVATE -Wl,--no-undefined -Wl,--as-needed)
  set_target_properties(kinet_cuda_emulation PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    BUILD_RPATH "\$ORIGIN")
endif()

# kinet_cuda_emulated_sources(<target> [CHECKED] <x.cu>...): compiles each file for the emulation, as a
# generated one-line .cpp that includes it (a .cu file itself may belong to a CUDA target as well),
# and links the engine. All kernels of a target are of one mode.
function(kinet_cuda_emulated_sources target)
  cmake_parse_arguments(arg "CHECKED" "" "" ${ARGN})
  foreach(source ${arg_UNPARSED_ARGUMENTS})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
    set(generated ${CMAKE_BINARY_DIR}/emulated/${target}/${name}.cpp)
    file(CONFIGURE OUTPUT ${generated} CONTENT "#include \"${name}\"\n" @ONLY)
    target_sources(${target} PRIVATE ${generated})
  endforeach()
  kinet_debug_loops(${target})
  # One copy of each template's shared memory for each library, whoever else is loaded.
  target_compile_options(${target} PRIVATE
    -fno-gnu-unique -fvisibility-inlines-hidden -Wno-unknown-pragmas -Wno-sign-compare)
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic)
  if(arg_CHECKED)
    target_compile_options(${target} PRIVATE
      -fsanitize=thread -fsanitize=alignment -fsanitize-recover=alignment -g1 -Wno-tsan
      -fno-tree-sra)  # a vector access is one access, not one for each of its values
    target_compile_definitions(${target} PRIVATE KINET_EMULATION_CHECKED=1)
  endif()
  target_link_libraries(${target} PUBLIC kinet_cuda_emulation)
endfunction()

# kinet_cuda_emulated_library(<name> [CHECKED] <x.cu>...): lib<name>.so in the build folder, over
# libkinet.so and the engine. To be called where KINET_CUDA_EMULATION is true, with CHECKED only
# where KINET_CUDA_CHECK_MODE is.
function(kinet_cuda_emulated_library name)
  add_library(${name} SHARED)
  kinet_cuda_emulated_sources(${name} ${ARGN})
  target_link_libraries(${name} PUBLIC kinet_lib)
  target_link_options(${name} PRIVATE -Wl,--no-undefined)
  add_dependencies(${name} kinet_generated)
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    BUILD_RPATH "\$ORIGIN")
endfunction()

# kinet_cuda_emulated_test(<name> <x_test.cc> LABELS <labels> TIMEOUT <seconds> CUDA <x.cu>...): test
# <name> in mode fast and, where there is one, <name>_checked in check mode; both programs hold the
# .cu files and the test itself, which may have kernels of its own.
function(kinet_cuda_emulated_test name source)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;CUDA" ${ARGN})
  if(NOT KINET_CUDA_EMULATION)
    message(STATUS "Left out: ${name} (the thread sanitizer cannot follow the emulation's stacks)")
    return()
  endif()
  set(modes fast)
  if(KINET_CUDA_CHECK_MODE)
    list(APPEND modes checked)
  endif()
  foreach(mode ${modes})
    set(program ${name})
    set(options "")
    set(labels ${arg_LABELS})
    if(mode STREQUAL "checked")
      set(program ${name}_checked)
      set(options CHECKED)
      set(labels unit cuda_check)
    endif()
    kinet_program(${program} ${source})
    kinet_cuda_emulated_sources(${program} ${options} ${arg_CUDA})
    set_target_properties(${program} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(${program} PRIVATE kinet_test_flags GTest::gtest_main)
    add_dependencies(${program} kinet_generated)
    add_test(NAME ${program} COMMAND ${program} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(${program} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT})
  endforeach()
endfunction()
