# SPDX-License-Identifier: Apache-2.0
# Installs the library as it is now, without what an earlier run left.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
file(REMOVE_RECURSE "${PREFIX}")
run("${CMAKE_COMMAND}" --install "${BINARY_DIR}" --prefix "${PREFIX}" --component library)
