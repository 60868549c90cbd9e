# SPDX-License-Identifier: Apache-2.0
# The ways that need nothing but a compiler, CMake and pkg-config; WAY names one.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

# A machine without any SDK: finders disabled, a bare PATH, and headers that do not compile.
set(ENV{PATH} "/usr/bin:/bin")
blind_headers(cuda_runtime.h cuda.h nvml.h hip/hip_runtime.h mpi.h Eigen/Dense Eigen/Core nlohmann/json.hpp
              nlohmann/json_fwd.hpp)
set(blind "-DCMAKE_CXX_FLAGS=-isystem ${WORK}/blind" "-DCMAKE_IGNORE_PREFIX_PATH=/usr/local/cuda\\;/opt/rocm")
foreach(package CUDAToolkit CUDA hip HIP MPI Eigen3 nlohmann_json CLI11 doctest)
    list(APPEND blind "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
endforeach()

if(WAY STREQUAL "find_package")
    build_consumer(${blind} "-DCMAKE_PREFIX_PATH=${PREFIX}")
elseif(WAY STREQUAL "add_subdirectory" OR WAY STREQUAL "fetch_content")
    build_consumer(${blind} "-DCONSUMER_WAY=${WAY}" "-DCONSUMER_SOURCE=${SOURCE_DIR}")
elseif(WAY STREQUAL "pkg_config")
    # Moved after it was installed: the .pc file finds its headers from where it stands.
    file(COPY "${PREFIX}/" DESTINATION "${WORK}/moved")
    run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${WORK}/moved/share/pkgconfig" pkg-config --cflags --libs shardwise)
    separate_arguments(flags UNIX_COMMAND "${printed}")
    compile_consumer(-isystem "${WORK}/blind" ${flags})
elseif(WAY STREQUAL "include_path")
    compile_consumer(-isystem "${WORK}/blind" "-I${SOURCE_DIR}/include")
elseif(WAY STREQUAL "single_header")
    run("${SOURCE_DIR}/scripts/make_single_header.py" "${WORK}/single/shardwise/shardwise.hpp")
    # The consumer includes it first, so it stands alone; no warning may come from it.
    compile_consumer(-isystem "${WORK}/blind" "-I${WORK}/single" -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow
                     -Werror)
else()
    message(FATAL_ERROR "no way '${WAY}'")
endif()
