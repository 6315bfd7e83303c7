# The few OpenCV modules kinet uses, found one by one. OpenCV's own package file comes only with
# libopencv-dev, which pulls in hundreds of megabytes of modules that are of no use here.
# Defines OpenCVParts::{core,imgproc,imgcodecs,dnn} as far as found, OpenCVParts_<module>_FOUND and
# OpenCVParts_VERSION.
find_path(OpenCVParts_INCLUDE_DIR opencv2/core/version.hpp PATH_SUFFIXES opencv4)
if(OpenCVParts_INCLUDE_DIR)
  file(STRINGS ${OpenCVParts_INCLUDE_DIR}/opencv2/core/version.hpp numbers
    REGEX "^#define[ \t]+CV_VERSION_(MAJOR|MINOR|REVISION)[ \t]+[0-9]+")
  string(REGEX MATCHALL "[0-9]+" numbers "${numbers}")
  list(JOIN numbers "." OpenCVParts_VERSION)
endif()

foreach(module core imgproc imgcodecs dnn)
  find_library(OpenCVParts_${module}_LIBRARY opencv_${module})
  mark_as_advanced(OpenCVParts_${module}_LIBRARY)
  if(OpenCVParts_INCLUDE_DIR AND OpenCVParts_${module}_LIBRARY
     AND EXISTS ${OpenCVParts_INCLUDE_DIR}/opencv2/${module}.hpp)
    set(OpenCVParts_${module}_FOUND TRUE)
    if(NOT TARGET OpenCVParts::${module})
      add_library(OpenCVParts::${module} UNKNOWN IMPORTED)
      set_target_properties(OpenCVParts::${module} PROPERTIES
        IMPORTED_LOCATION ${OpenCVParts_${module}_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${OpenCVParts_INCLUDE_DIR})
      if(NOT module STREQUAL core)
        target_link_libraries(OpenCVParts::${module} INTERFACE OpenCVParts::core)
      endif()
    endif()
  else()
    set(OpenCVParts_${module}_FOUND FALSE)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenCVParts
  REQUIRED_VARS OpenCVParts_INCLUDE_DIR OpenCVParts_core_LIBRARY VERSION_VAR OpenCVParts_VERSION)
mark_as_advanced(OpenCVParts_INCLUDE_DIR)
