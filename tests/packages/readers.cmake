# SPDX-License-Identifier: Apache-2.0
# The component readers with nothing else in sight: by find_package, as a subdirectory and by pkg-config.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
blind_headers(nlohmann/json.hpp nlohmann/json_fwd.hpp)
set(blind "-DCMAKE_CXX_FLAGS=-isystem ${WORK}/blind" -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)

function(expect_layers program)
    run("${program}")
    if(NOT printed STREQUAL "layers: 32\n")
        message(FATAL_ERROR "${program} prints '${printed}'")
    endif()
endfunction()

build_consumer(${blind} "-DCMAKE_PREFIX_PATH=${PREFIX}" -DCONSUMER_COMPONENTS=readers)
expect_layers("${WORK}/build/readers")

run("${CMAKE_COMMAND}" -G Ninja -S "${SOURCE_DIR}/tests/consumer" -B "${WORK}/subdirectory"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCONSUMER_WAY=add_subdirectory "-DCONSUMER_SOURCE=${SOURCE_DIR}"
    ${blind} -DCONSUMER_COMPONENTS=readers)
run("${CMAKE_COMMAND}" --build "${WORK}/subdirectory" --target readers)
expect_layers("${WORK}/subdirectory/readers")

run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/share/pkgconfig" pkg-config --cflags --libs shardwise-readers)
separate_arguments(flags UNIX_COMMAND "${printed}")
run("${COMPILER}" -std=c++20 -isystem "${WORK}/blind" ${flags} "${SOURCE_DIR}/tests/consumer/readers.cpp" -o "${WORK}/readers")
expect_layers("${WORK}/readers")
