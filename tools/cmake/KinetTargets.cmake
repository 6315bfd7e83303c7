# The two shapes of target: a folder of objects and a program.

# kinet_object_folder(<folder> [NOT_IN_LIBRARY]): all *.cc of <folder> (not of its sub-folders) as an
# OBJECT library named after it, src/net -> src_net. Does nothing while the folder has no sources.
# Without libibverbs, what needs it is left out: comm/verbs and comm/transports/verbs*.cc.
# The variants for other processors (x_avx2.cc, x_avx512.cc off x86-64) are left out.
function(kinet_object_folder folder)
  cmake_parse_arguments(arg "NOT_IN_LIBRARY" "" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_(sse|avx)[0-9]*\\.cc$")
  endif()
  if(NOT KINET_VERBS)
    list(FILTER sources EXCLUDE REGEX "comm/(verbs/|transports/verbs)")
  endif()
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" name ${folder})
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PUBLIC kinet_flags)
  add_dependencies(${name} kinet_generated)
  list(LENGTH sources count)
  if(count GREATER 5)
    kinet_precompile(${name})
  endif()
  if(NOT arg_NOT_IN_LIBRARY)
    set_property(GLOBAL APPEND PROPERTY KINET_OBJECTS $<TARGET_OBJECTS:${name}>)
  endif()
endfunction()

# Several sources in one compilation (KINET_UNITY): most of the time goes into the templates of
# libraries (command lines, JSON, text), which every source would compile for itself. Names in the
# unnamed namespaces of one folder have to differ.
option(KINET_UNITY "Compile several sources of a folder at once" ON)
function(kinet_unity)
  foreach(folder ${ARGN})
    string(REPLACE "/" "_" name ${folder})
    if(KINET_UNITY AND TARGET ${name})
      set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    endif()
  endforeach()
endfunction()

# kinet_program(<name> <sources...>): an executable over libkinet.so.
function(kinet_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE kinet_lib)
  target_link_options(${name} PRIVATE -Wl,--as-needed)
endfunction()

# Loops that tests under a sanitizer spend their time in.
function(kinet_debug_loops)
  foreach(target ${ARGN})
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
    endif()
  endforeach()
endfunction()

# Loops over floats: vectorise, and promise that nobody reads errno or floating-point traps. The
# values of NaN and Inf keep their meaning, and so does the order of operations.
function(kinet_numeric_flags)
  kinet_debug_loops(${ARGN})
  foreach(target ${ARGN})
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE
        $<$<CONFIG:Release,RelWithDebInfo>:-O3> -fno-math-errno -fno-trapping-math)
    endif()
  endforeach()
endfunction()

# One file per instruction set, chosen at run time; only these files may use the instructions.
function(kinet_instruction_set_flags)
  file(GLOB avx2 CONFIGURE_DEPENDS src/math/*_avx2.cc)
  set_source_files_properties(${avx2} PROPERTIES
    COMPILE_OPTIONS "-mavx2;-mfma" SKIP_PRECOMPILE_HEADERS ON)
  file(GLOB avx512 CONFIGURE_DEPENDS src/math/*_avx512.cc)
  set_source_files_properties(${avx512} PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
