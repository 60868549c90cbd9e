# SPDX-License-Identifier: Apache-2.0
# The installation component `library`: headers, a package config with components, pkg-config files. share/ because nothing
# here depends on the architecture.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/shardwise")
set(pc_dir "${CMAKE_INSTALL_DATADIR}/pkgconfig")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/shardwise" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh" PATTERN "*.cu" PATTERN "*.cpp" PATTERN "*.inc")

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/shardwise" COMPONENT library)

# One export set per component, so that a consumer of the first never meets the dependencies of the others.
install(TARGETS shardwise EXPORT shardwise-shardwise)
install(TARGETS shardwise_readers EXPORT shardwise-readers)
install(TARGETS shardwise_host EXPORT shardwise-host)
foreach(component shardwise readers host)
    install(EXPORT shardwise-${component} FILE shardwise-${component}.cmake NAMESPACE shardwise::
            DESTINATION "${package_dir}" COMPONENT library)
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/shardwise-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/package/shardwise-config.cmake"
                              INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/shardwise-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/package/shardwise-config.cmake"
              "${PROJECT_BINARY_DIR}/package/shardwise-config-version.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/shardwise-components.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/shardwise-device.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/shardwise-device-sources.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/shardwise-runtime.cmake"
        DESTINATION "${package_dir}" COMPONENT library)

# The prefix may be moved or chosen at install time, so the headers are named relative to the .pc file itself.
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}" OR IS_ABSOLUTE "${pc_dir}")
    set(pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
    file(RELATIVE_PATH pc_includedir "/${pc_dir}" "/${CMAKE_INSTALL_INCLUDEDIR}")
    string(PREPEND pc_includedir "\${pcfiledir}/")
endif()
foreach(name shardwise shardwise-readers shardwise-host)
    configure_file("${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in" "${PROJECT_BINARY_DIR}/package/${name}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/package/${name}.pc" DESTINATION "${pc_dir}" COMPONENT library)
endforeach()
