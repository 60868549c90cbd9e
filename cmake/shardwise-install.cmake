# Headers and a package config with components. share/ because nothing here depends on the architecture.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/shardwise")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/shardwise" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh" PATTERN "*.cu")

# One export set per component, so that a consumer of the first never meets the dependencies of the others.
install(TARGETS shardwise EXPORT shardwise-shardwise)
install(TARGETS shardwise_readers EXPORT shardwise-readers)
foreach(component shardwise readers)
    install(EXPORT shardwise-${component} FILE shardwise-${component}.cmake NAMESPACE shardwise::
            DESTINATION "${package_dir}")
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/shardwise-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/package/shardwise-config.cmake"
                              INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/shardwise-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/package/shardwise-config.cmake"
              "${PROJECT_BINARY_DIR}/package/shardwise-config-version.cmake"
        DESTINATION "${package_dir}")
