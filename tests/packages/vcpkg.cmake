# SPDX-License-Identifier: Apache-2.0
# The overlay port: its portfile is run as vcpkg runs it, by the helpers beside, and what it packs is used from elsewhere.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/vcpkg_helpers.cmake")

set(PORT shardwise)
set(FEATURES core)
set(TARGET_TRIPLET x64-linux)
set(CURRENT_PORT_DIR "${SOURCE_DIR}/ports/${PORT}")
set(CURRENT_BUILDTREES_DIR "${WORK}/buildtrees/${PORT}")
set(CURRENT_PACKAGES_DIR "${WORK}/packages/${PORT}_${TARGET_TRIPLET}")
set(CURRENT_INSTALLED_DIR "${WORK}/installed/${TARGET_TRIPLET}")
include("${CURRENT_PORT_DIR}/portfile.cmake")

# What vcpkg looks for afterwards.
foreach(path include/shardwise/shardwise.hpp share/shardwise/shardwise-config.cmake share/shardwise/usage
             share/pkgconfig/shardwise.pc)
    if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${path}")
        message(FATAL_ERROR "the package lacks ${path}")
    endif()
endforeach()
if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/share/shardwise/copyright" AND NOT VCPKG_POLICY_SKIP_COPYRIGHT_CHECK)
    message(FATAL_ERROR "the package lacks share/shardwise/copyright")
endif()
foreach(path lib debug share/cmake)
    if(EXISTS "${CURRENT_PACKAGES_DIR}/${path}")
        message(FATAL_ERROR "the package must not have ${path}")
    endif()
endforeach()

file(REMOVE_RECURSE "${CURRENT_BUILDTREES_DIR}")
file(MAKE_DIRECTORY "${WORK}/installed")
file(RENAME "${CURRENT_PACKAGES_DIR}" "${CURRENT_INSTALLED_DIR}")
build_consumer("-DCMAKE_PREFIX_PATH=${CURRENT_INSTALLED_DIR}")
