# What `cmake --install` puts where: the library, its two headers, and what find_package and pkg-config read. Each names
# the others relative to itself, so an installed tree may be moved. Plugins install themselves (kvf_plugin).
include(CMakePackageConfigHelpers)

set(KVF_CMAKE_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/kvferry)

install(TARGETS kvferry EXPORT kvferryTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/kvferry/kvferry.h include/kvferry/plugin.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvferry)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT kvferryTargets NAMESPACE kvferry:: DESTINATION ${KVF_CMAKE_INSTALL_DIR})
configure_package_config_file(cmake/kvferryConfig.cmake.in ${PROJECT_BINARY_DIR}/package/kvferryConfig.cmake
  INSTALL_DESTINATION ${KVF_CMAKE_INSTALL_DIR}
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Of sources: before 1.0 each minor version may break those of the one before.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/kvferryConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/kvferryConfig.cmake
  ${PROJECT_BINARY_DIR}/package/kvferryConfigVersion.cmake
  DESTINATION ${KVF_CMAKE_INSTALL_DIR})

# kvferry.pc finds the prefix from where it lies, unless somebody chose a libdir outside the prefix.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(KVF_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(KVF_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(KVF_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH KVF_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" KVF_PC_UP "${KVF_PC_UP}")
  set(KVF_PC_PREFIX "\${pcfiledir}/${KVF_PC_UP}")
  set(KVF_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(KVF_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(pkgconfig/kvferry.pc.in ${PROJECT_BINARY_DIR}/package/kvferry.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/kvferry.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
