# SPDX-License-Identifier: Apache-2.0
# The component runtime: the consumer's build compiles the library once, and example 06 is linked to it. A build type without
# flags: the code is only compiled and asked for a model that is not there. UNIT: only this unit of the library is compiled.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

run("${CMAKE_COMMAND}" -G Ninja -S "${SOURCE_DIR}/tests/consumer" -B "${WORK}/build" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    "-DCMAKE_PREFIX_PATH=${PREFIX}" -DCMAKE_BUILD_TYPE=Plain -DCONSUMER_COMPONENTS=runtime)
if(UNIT)
    run("${CMAKE_COMMAND}" --build "${WORK}/build" --target "${PREFIX}/include/shardwise/session/runtime/${UNIT}^")
    return()
endif()
run("${CMAKE_COMMAND}" --build "${WORK}/build" --target runner)
expect_refusal("usage: example_06_run FOLDER|FILE.gguf" "${WORK}/build/runner")
expect_refusal("no-such-folder" "${WORK}/build/runner" "${WORK}/no-such-folder")
