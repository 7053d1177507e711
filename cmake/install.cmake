# SPDX-License-Identifier: Apache-2.0
# Headers, libraries, command, pkg-config file and CMake package. Everything is relative to where it
# lies, so a prefix may be chosen at install time and moved later.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rlx)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY include/rlx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(TARGETS rlx_shared rlx_static EXPORT rlxTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET rlx)
    install(TARGETS rlx RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT rlxTargets NAMESPACE rlx:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rlxConfig.cmake.in ${CMAKE_BINARY_DIR}/rlxConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rlxConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rlxConfig.cmake ${CMAKE_BINARY_DIR}/rlxConfigVersion.cmake
    DESTINATION ${package_dir})

file(RELATIVE_PATH prefix_from_pkgconfig /p/${pkgconfig_dir} /p)
configure_file(cmake/rlx.pc.in ${CMAKE_BINARY_DIR}/rlx.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rlx.pc DESTINATION ${pkgconfig_dir})
