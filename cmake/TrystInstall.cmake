# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, and how a consumer finds it: find_package(tryst) and
# tryst.pc, tryst-topology.pc, tryst-pipeline.pc.
#
# The static libraries are a component of their own export, since only they make a consumer need
# libsodium and BLAS to link.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tryst)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(shared tryst tryst_topology)
set(static tryst_static tryst_topology_static)
if(TRYST_HAVE_PIPELINE)
    list(APPEND shared tryst_pipeline)
    list(APPEND static tryst_pipeline_static)
endif()

install(DIRECTORY include/tryst DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(TARGETS ${shared} EXPORT tryst_shared)
install(TARGETS ${static} EXPORT tryst_static)
install(EXPORT tryst_shared NAMESPACE tryst:: FILE tryst-shared.cmake DESTINATION ${package_dir})
install(EXPORT tryst_static NAMESPACE tryst:: FILE tryst-static.cmake DESTINATION ${package_dir})
# The build tree too is a package: -Dtryst_DIR=<build folder>.
export(EXPORT tryst_shared NAMESPACE tryst:: FILE ${PROJECT_BINARY_DIR}/tryst-shared.cmake)
export(EXPORT tryst_static NAMESPACE tryst:: FILE ${PROJECT_BINARY_DIR}/tryst-static.cmake)

configure_package_config_file(cmake/tryst-config.cmake.in tryst-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor version may change the interface.
write_basic_package_version_file(tryst-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tryst-config.cmake
              ${PROJECT_BINARY_DIR}/tryst-config-version.cmake
        DESTINATION ${package_dir})

# An installed tree may be moved: paths in the .pc files start from where they lie.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_PREFIX}/${pc_dir} ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/tryst.pc.in tryst.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tryst.pc DESTINATION ${pc_dir})
configure_file(cmake/tryst-topology.pc.in tryst-topology.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tryst-topology.pc DESTINATION ${pc_dir})
if(TRYST_HAVE_PIPELINE)
    configure_file(cmake/tryst-pipeline.pc.in tryst-pipeline.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/tryst-pipeline.pc DESTINATION ${pc_dir})
endif()
