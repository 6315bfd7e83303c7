# One executable for each bench/*_bench.cc; the other *.cc of bench/ are shared helpers. None is part
# of the default build: the target 'benches' makes them all.
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*_bench.cc)
file(GLOB bench_helpers CONFIGURE_DEPENDS bench/*.cc)
list(FILTER bench_helpers EXCLUDE REGEX "_bench\\.cc$")
add_custom_target(benches)
if(NOT benchmark_FOUND)
  return()
endif()
foreach(source ${bench_sources})
  cmake_path(GET source STEM name)
  kinet_program(${name} ${source} ${bench_helpers})
  target_link_libraries(${name} PRIVATE benchmark::benchmark)
  target_compile_definitions(${name} PRIVATE KINET_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES
    EXCLUDE_FROM_ALL TRUE RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  add_dependencies(${name} kinet_generated)
  add_dependencies(benches ${name})
endforeach()
