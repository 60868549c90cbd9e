# SPDX-License-Identifier: Apache-2.0
# One version, wherever it is named: the manifests, the changelog, every header's namespace, the .pc files, the program.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

run("${SOURCE_DIR}/scripts/set_version.py" --check)
foreach(name shardwise shardwise-readers)
    run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/share/pkgconfig" pkg-config --modversion ${name})
    if(NOT printed STREQUAL "${VERSION}\n")
        message(FATAL_ERROR "${name}.pc has version '${printed}', not ${VERSION}")
    endif()
endforeach()
if(PROGRAM)
    run("${PROGRAM}" --version)
    if(NOT printed MATCHES "(^|[^0-9.])${VERSION}([^0-9.]|$)")
        message(FATAL_ERROR "the program says '${printed}', not ${VERSION}")
    endif()
endif()

# The check must see each of them: a copy with one name changed is refused.
foreach(path vcpkg.json ports CHANGELOG.md include)
    file(COPY "${SOURCE_DIR}/${path}" DESTINATION "${WORK}/copy")
endforeach()
foreach(file vcpkg.json ports/shardwise/vcpkg.json CHANGELOG.md include/shardwise/core/bytes.hpp)
    file(READ "${WORK}/copy/${file}" text)
    string(REGEX REPLACE "(\"version-semver\": \"|\n## \\[|inline SHARDWISE_)[0-9N]" "\\17" changed "${text}")
    file(WRITE "${WORK}/copy/${file}" "${changed}")
    expect_refusal("${file}: " "${SOURCE_DIR}/scripts/set_version.py" --check --root "${WORK}/copy")
    file(WRITE "${WORK}/copy/${file}" "${text}")
endforeach()
