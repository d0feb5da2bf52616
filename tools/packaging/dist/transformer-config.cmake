# find_package(transformer) in the unpacked C package. transformer::transformer is the library, which is compiled in your
# build; transformer::header is only the header.
if(NOT TARGET transformer::header)
  get_filename_component(_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  set(TRANSFORMER_TRANSLATE OFF CACHE BOOL "The package has no sources of programs")
  add_subdirectory("${_prefix}/tools" "${CMAKE_CURRENT_BINARY_DIR}/transformer" EXCLUDE_FROM_ALL)
  unset(_prefix)
endif()
