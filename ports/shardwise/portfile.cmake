# SPDX-License-Identifier: Apache-2.0
# An overlay port of the checkout that it lies in: vcpkg install shardwise --overlay-ports=<checkout>/ports
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../.." ABSOLUTE)

# Headers only: one build serves debug and release.
set(VCPKG_BUILD_TYPE release)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DSHARDWISE_TESTS=OFF
        -DSHARDWISE_EXAMPLES=OFF
        -DSHARDWISE_BENCH=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/shardwise)
if(NOT "readers" IN_LIST FEATURES)
    # It asks for nlohmann_json, which only the feature installs.
    file(REMOVE "${CURRENT_PACKAGES_DIR}/share/pkgconfig/shardwise-readers.pc")
endif()
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug" "${CURRENT_PACKAGES_DIR}/lib")

file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
