# SPDX-License-Identifier: Apache-2.0
# The component readers with the system's nlohmann_json: by find_package, as a subdirectory and by pkg-config.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

function(expect_layers program)
    run("${program}")
    if(NOT printed STREQUAL "layers: 32\n")
        message(FATAL_ERROR "${program} prints '${printed}'")
    endif()
endfunction()

build_consumer("-DCMAKE_PREFIX_PATH=${PREFIX}" -DCONSUMER_COMPONENTS=readers)
expect_layers("${WORK}/build/readers")

run("${CMAKE_COMMAND}" -G Ninja -S "${SOURCE_DIR}/tests/consumer" -B "${WORK}/subdirectory"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCONSUMER_WAY=add_subdirectory "-DCONSUMER_SOURCE=${SOURCE_DIR}"
    -DCONSUMER_COMPONENTS=readers)
run("${CMAKE_COMMAND}" --build "${WORK}/subdirectory" --target readers)
expect_layers("${WORK}/subdirectory/readers")

run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/share/pkgconfig" pkg-config --cflags --libs shardwise-readers)
separate_arguments(flags UNIX_COMMAND "${printed}")
run("${COMPILER}" -std=c++20 ${flags} "${SOURCE_DIR}/tests/consumer/readers.cpp" -o "${WORK}/readers")
expect_layers("${WORK}/readers")
