# SPDX-License-Identifier: Apache-2.0
# What the portfile calls, as vcpkg's own helpers do it for a release-only port on Linux: same names, same arguments, same
# refusals. Read against vcpkg's scripts/cmake and its ports vcpkg-cmake and vcpkg-cmake-config.

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCE_PATH)
        message(FATAL_ERROR "vcpkg_cmake_configure: ${arg_UNPARSED_ARGUMENTS}; SOURCE_PATH '${arg_SOURCE_PATH}'")
    endif()
    run("${CMAKE_COMMAND}" -G Ninja -S "${arg_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}/rel"
        "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF
        "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" -DCMAKE_INSTALL_BINDIR=bin -DCMAKE_INSTALL_LIBDIR=lib
        -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
    run("${CMAKE_COMMAND}" --build "${CURRENT_BUILDTREES_DIR}/rel" --config Release --target install)
endfunction()

# Moves CONFIG_PATH to share/<port>, where everything looks, and corrects the way from there to the prefix.
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
    if(NOT VCPKG_BUILD_TYPE STREQUAL "release")
        message(FATAL_ERROR "vcpkg_cmake_config_fixup: '${CURRENT_PACKAGES_DIR}/debug/${arg_CONFIG_PATH}' does not exist")
    endif()
    set(share "${CURRENT_PACKAGES_DIR}/share/${PORT}")
    file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*")
    file(COPY ${files} DESTINATION "${share}")
    cmake_path(GET arg_CONFIG_PATH PARENT_PATH parent)
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}" "${CURRENT_PACKAGES_DIR}/${parent}")

    file(GLOB files "${share}/*.cmake")
    foreach(file IN LISTS files)
        file(READ "${file}" text)
        string(REGEX REPLACE
            "(get_filename_component\\(_IMPORT_PREFIX \"\\\${CMAKE_CURRENT_LIST_FILE}\" PATH\\)\n)(get_filename_component\\(_IMPORT_PREFIX \"\\\${_IMPORT_PREFIX}\" PATH\\)\n)+"
            "\\1\\2\\2" text "${text}")
        string(REGEX REPLACE "\\\${CMAKE_CURRENT_LIST_DIR}/\\.\\./(\\.\\./)*\" ABSOLUTE"
            "\${CMAKE_CURRENT_LIST_DIR}/../../\" ABSOLUTE" text "${text}")
        file(WRITE "${file}" "${text}")
    endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
    file(GLOB files "${CURRENT_PACKAGES_DIR}/share/pkgconfig/*.pc" "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/*.pc")
    foreach(file IN LISTS files)
        cmake_path(GET file STEM LAST_ONLY name)
        cmake_path(GET file PARENT_PATH folder)
        run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_LIBDIR=${folder}" pkg-config --print-errors --exists "${name}")
    endforeach()
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "COMMENT" "FILE_LIST")
    if(NOT arg_FILE_LIST)
        message(FATAL_ERROR "vcpkg_install_copyright: FILE_LIST must contain at least one file")
    endif()
    file(INSTALL ${arg_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}" RENAME copyright)
endfunction()
