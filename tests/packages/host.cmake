# SPDX-License-Identifier: Apache-2.0
# The component host with nothing else in sight: no vendor header, no JSON, no Eigen. Example 09 as somebody else's engine, by
# find_package, by pkg-config and by the include path alone.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

set(ENV{PATH} "/usr/bin:/bin")
blind_headers(cuda_runtime.h cuda.h nvml.h hip/hip_runtime.h mpi.h gloo/config.h oneapi/dnnl/dnnl.hpp Eigen/Dense Eigen/Core
              nlohmann/json.hpp nlohmann/json_fwd.hpp)
file(READ "${SOURCE_DIR}/examples/07_inside_an_engine/expected.txt" expected_text)

function(expect_engine program)
    run("${program}")
    if(NOT printed STREQUAL expected_text)
        message(FATAL_ERROR "${program} prints '${printed}'")
    endif()
endfunction()

run("${CMAKE_COMMAND}" -G Ninja -S "${SOURCE_DIR}/tests/consumer" -B "${WORK}/build" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    "-DCMAKE_CXX_FLAGS=-isystem ${WORK}/blind" "-DCMAKE_PREFIX_PATH=${PREFIX}" -DCONSUMER_COMPONENTS=host)
run("${CMAKE_COMMAND}" --build "${WORK}/build" --target engine)
expect_engine("${WORK}/build/engine")

run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/share/pkgconfig" pkg-config --cflags --libs shardwise-host)
separate_arguments(flags UNIX_COMMAND "${printed}")
run("${COMPILER}" -std=c++20 -isystem "${WORK}/blind" "${SOURCE_DIR}/examples/07_inside_an_engine/main.cpp" ${flags}
    -o "${WORK}/engine")
expect_engine("${WORK}/engine")
