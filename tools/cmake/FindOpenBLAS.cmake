# OpenBLAS and nothing else: kinet calls openblas_set_num_threads, which other BLAS libraries lack.
# Debian keeps the flavours in folders of their own; the pthread one is preferred because kinet
# fixes OpenBLAS to one thread and divides the work itself.
# Defines OpenBLAS::OpenBLAS, OpenBLAS_FOUND, OpenBLAS_VERSION.
set(suffixes openblas-pthread openblas openblas-serial openblas-openmp)
find_path(OpenBLAS_INCLUDE_DIR openblas_config.h PATH_SUFFIXES ${suffixes}
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} /opt/OpenBLAS/include)
find_library(OpenBLAS_LIBRARY openblas PATH_SUFFIXES ${suffixes} PATHS /opt/OpenBLAS/lib)
unset(suffixes)

if(OpenBLAS_INCLUDE_DIR AND EXISTS ${OpenBLAS_INCLUDE_DIR}/openblas_config.h)
  file(STRINGS ${OpenBLAS_INCLUDE_DIR}/openblas_config.h version_line REGEX "OPENBLAS_VERSION")
  string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" OpenBLAS_VERSION "${version_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR VERSION_VAR OpenBLAS_VERSION)
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION ${OpenBLAS_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenBLAS_INCLUDE_DIR})
endif()
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)
