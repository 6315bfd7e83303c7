# Generated sources, all under build/generated:
#   src/proto/kinet/x.pb.{h,cc}  include as "src/proto/kinet/x.pb.h"
#   build_info.h                 version, build type, compiler, commit
# The target kinet_generated makes them; every folder depends on it.
add_custom_target(kinet_generated)

# ---- protobuf -----------------------------------------------------------------------------------
file(GLOB proto_files CONFIGURE_DEPENDS src/proto/kinet/*.proto)
set(proto_root ${CMAKE_SOURCE_DIR}/src/proto)
set(proto_out ${KINET_GENERATED_DIR}/src/proto)
file(MAKE_DIRECTORY ${proto_out})
set(proto_sources "")
set(proto_headers "")
foreach(file ${proto_files})
  cmake_path(GET file STEM name)
  set(out ${proto_out}/kinet/${name}.pb)
  add_custom_command(
    OUTPUT ${out}.cc ${out}.h
    COMMAND protobuf::protoc --cpp_out=${proto_out} -I ${proto_root} kinet/${name}.proto
    DEPENDS ${proto_files} VERBATIM
    COMMENT "protoc kinet/${name}.proto")
  list(APPEND proto_sources ${out}.cc)
  list(APPEND proto_headers ${out}.h)
endforeach()
if(proto_sources)
  add_custom_target(kinet_proto_headers DEPENDS ${proto_sources} ${proto_headers})
  add_dependencies(kinet_generated kinet_proto_headers)
  add_library(src_proto OBJECT ${proto_sources})
  target_link_libraries(src_proto PUBLIC kinet_flags)
  target_compile_options(src_proto PRIVATE -w)  # not our code
  add_dependencies(src_proto kinet_generated)
  set_property(GLOBAL APPEND PROPERTY KINET_OBJECTS $<TARGET_OBJECTS:src_proto>)
endif()

# ---- build_info.h ---------------------------------------------------------------------------------
# Looked at in every build, written only when it changes, included by src/base/build_info.cc alone:
# a commit compiles one file.
find_package(Git QUIET)
add_custom_target(kinet_build_info
  COMMAND ${CMAKE_COMMAND}
    -D OUT=${KINET_GENERATED_DIR}/build_info.h
    -D SOURCE_DIR=${CMAKE_SOURCE_DIR}
    -D GIT=${GIT_EXECUTABLE}
    -D VERSION=${PROJECT_VERSION}
    -D "BUILD_TYPE=${CMAKE_BUILD_TYPE}"
    -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -D "SANITIZE=${KINET_SANITIZE}"
    -P ${CMAKE_SOURCE_DIR}/tools/cmake/write_build_info.cmake
  BYPRODUCTS ${KINET_GENERATED_DIR}/build_info.h
  COMMENT "build_info.h" VERBATIM)
add_dependencies(kinet_generated kinet_build_info)
