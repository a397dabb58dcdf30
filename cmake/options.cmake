# What every target here is compiled with, and where what is built lands.
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(KVF_PLUGIN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
file(WRITE ${KVF_PLUGIN_OUTPUT_DIRECTORY}/build-tree "By this file the library knows the plugins of its build tree.\n")
# An installed program finds the library beside it, wherever the tree was put.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

add_library(kvf_warnings INTERFACE)
target_compile_options(kvf_warnings INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${KVF_WERROR}>:-Werror>)

if(KVF_SANITIZE)
  add_compile_options(-fsanitize=${KVF_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVF_SANITIZE})
endif()

# The major version of the plugin ABI names the folder that plugins are installed to.
file(STRINGS include/kvferry/plugin.h KVF_PLUGIN_ABI_LINE REGEX "define KVF_PLUGIN_ABI_MAJOR")
string(REGEX MATCH "[0-9]+" KVF_PLUGIN_ABI_MAJOR "${KVF_PLUGIN_ABI_LINE}")
set(KVF_PLUGIN_INSTALL_DIR ${CMAKE_INSTALL_FULL_LIBDIR}/kvferry-${KVF_PLUGIN_ABI_MAJOR})

# kvf_unity(TARGET): its sources in pieces of thirty, where KVF_UNITY asks for that.
function(kvf_unity target)
  if(KVF_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 30)
  endif()
endfunction()

# kvf_plugin(NAME SOURCES...): a plugin, which sees the public headers alone and exports its query alone: a unique symbol
# of a C++ library that got out would keep it from being unloaded.
function(kvf_plugin name)
  add_library(kvf_plugin_${name} MODULE ${ARGN})
  set_target_properties(kvf_plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${KVF_PLUGIN_OUTPUT_DIRECTORY}
    INSTALL_RPATH ""
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/plugin.map)
  kvf_unity(kvf_plugin_${name})
  target_include_directories(kvf_plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(kvf_plugin_${name} PRIVATE kvf_warnings)
  target_link_options(kvf_plugin_${name} PRIVATE
    -Wl,--version-script,${PROJECT_SOURCE_DIR}/cmake/plugin.map -Wl,--exclude-libs,ALL)
  if(NOT KVF_SANITIZE)
    target_link_options(kvf_plugin_${name} PRIVATE -Wl,--no-undefined)
  endif()
  # Relative, so that it follows the prefix that `cmake --install` is given.
  install(TARGETS kvf_plugin_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kvferry-${KVF_PLUGIN_ABI_MAJOR})
endfunction()
