# find_package(transformer) reads this file after make install. transformer::transformer is the shared
# library, transformer::static is the static library, and transformer::header is only the header.
get_filename_component(_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET transformer::header)
  add_library(transformer::header INTERFACE IMPORTED)
  set_target_properties(transformer::header PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_prefix}/include" INTERFACE_LINK_LIBRARIES "m;-pthread")
  add_library(transformer::transformer SHARED IMPORTED)
  set_target_properties(transformer::transformer PROPERTIES
    IMPORTED_LOCATION "${_prefix}/lib/libtransformer.so" IMPORTED_NO_SONAME FALSE)
  add_library(transformer::static STATIC IMPORTED)
  set_target_properties(transformer::static PROPERTIES
    IMPORTED_LOCATION "${_prefix}/lib/libtransformer.a" INTERFACE_LINK_LIBRARIES "m;-pthread")
  set_property(TARGET transformer::transformer transformer::static PROPERTY
    INTERFACE_INCLUDE_DIRECTORIES "${_prefix}/include")
  set_property(TARGET transformer::transformer transformer::static PROPERTY
    INTERFACE_COMPILE_DEFINITIONS TRANSFORMER_LIBRARY)
endif()
unset(_prefix)
