# Static gates on the CUDA kernels: no GPU needed, only nvcc. Not part of the default build.
#
#   cuda_static   compiles each cuda/*.cu to machine code of one architecture into cuda_static/, where a
#                 spill, local memory or arithmetic in double is an error, and compares registers,
#                 shared memory and 128-bit accesses with cuda/static_table.txt
#
# libkinet_cuda.so is compiled with the same flags for all architectures (KINET_CUDA_PTXAS_FLAGS), so
# the first half holds for all of them.
set(KINET_CUDA_GATE_ARCHITECTURE 80)  # of the table; the opcode numbers are known from sm_80 on
set(KINET_CUDA_PTXAS_FLAGS -warn-spills,-warn-lmem-usage,-warn-double-usage,-Werror)

find_program(KINET_NVCC nvcc PATHS /usr/local/cuda/bin)
mark_as_advanced(KINET_NVCC)
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT KINET_NVCC OR NOT Python3_FOUND)
  add_custom_target(cuda_static COMMAND ${CMAKE_COMMAND} -E echo
    "Left out: static figures of the CUDA kernels (they need nvcc and python3)" VERBATIM)
  return()
endif()

set(gate_folder ${CMAKE_BINARY_DIR}/cuda_static)
file(MAKE_DIRECTORY ${gate_folder})
set(gate_outputs ${gate_folder}/version.txt)
add_custom_command(
  OUTPUT ${gate_folder}/version.txt
  COMMAND sh -c "\"$0\" --version | grep release > \"$1\"" ${KINET_NVCC} ${gate_folder}/version.txt
  DEPENDS ${KINET_NVCC} VERBATIM)

file(GLOB gate_sources CONFIGURE_DEPENDS cuda/*.cu)
foreach(source ${gate_sources} ${CMAKE_SOURCE_DIR}/tests/cuda/opcode_probe.cu)
  cmake_path(GET source STEM name)
  set(out ${gate_folder}/${name})
  # ptxas tells the figures on the error stream; they are shown only when it fails.
  add_custom_command(
    OUTPUT ${out}.cubin
    COMMAND sh -c "\"$@\" > ${out}.log 2>&1 || { cat ${out}.log; exit 1; }" sh
      ${KINET_NVCC} -std=c++20 -O3 -DFMT_USE_CONSTEXPR=1 -cubin -arch=sm_${KINET_CUDA_GATE_ARCHITECTURE}
      -Xptxas -v,${KINET_CUDA_PTXAS_FLAGS} -I ${CMAKE_SOURCE_DIR} -isystem ${KINET_GENERATED_DIR}
      -isystem ${KINET_GENERATED_DIR}/src/proto -MD -MF ${out}.d -MT ${out}.cubin
      -o ${out}.cubin ${source}
    DEPENDS ${source} DEPFILE ${out}.d VERBATIM
    COMMENT "Static figures of ${name}.cu")
  list(APPEND gate_outputs ${out}.cubin)
endforeach()

add_custom_target(cuda_static
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/cuda_static_table.py ${gate_folder}
  DEPENDS ${gate_outputs} VERBATIM
  COMMENT "Static figures against cuda/static_table.txt")
add_dependencies(cuda_static kinet_generated)
