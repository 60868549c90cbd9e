# cmake -DMODE=... -DSOURCE_DIR=... -DBINARY_DIR=... -DWORK=... -DCOMPILER=... -P consumer.cmake
#
# Builds tests/consumer as somebody else's project on a machine without any SDK: finders disabled, a bare PATH, and
# headers of CUDA, HIP, MPI, Eigen and nlohmann_json replaced by ones that do not compile.
#   installed     the planning half, installed, by find_package
#   subdirectory  the planning half, by add_subdirectory
#   readers       the readers where nlohmann_json cannot be found: a clear error
#   unknown       a component that does not exist: a clear error
set(ENV{PATH} "/usr/bin:/bin")
foreach(variable CUDACXX CUDA_PATH CUDA_HOME HIP_PATH ROCM_PATH MPI_HOME CPATH CPLUS_INCLUDE_PATH CMAKE_PREFIX_PATH)
    unset(ENV{${variable}})
endforeach()

set(blind "${WORK}/blind")
foreach(header cuda_runtime.h cuda.h nvml.h hip/hip_runtime.h mpi.h Eigen/Dense Eigen/Core nlohmann/json.hpp
               nlohmann/json_fwd.hpp)
    file(WRITE "${blind}/${header}" "#error \"the planning half must not include <${header}>\"\n")
endforeach()

set(arguments -G Ninja "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=-isystem ${blind}"
              "-DCMAKE_IGNORE_PREFIX_PATH=/usr/local/cuda\\;/opt/rocm")
foreach(package CUDAToolkit CUDA hip HIP MPI Eigen3 nlohmann_json CLI11 doctest)
    list(APPEND arguments "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
endforeach()

if(MODE STREQUAL "subdirectory")
    list(APPEND arguments "-DSHARDWISE_SUBDIRECTORY=${SOURCE_DIR}")
else()
    set(prefix "${WORK}/prefix-${MODE}")
    file(REMOVE_RECURSE "${prefix}")
    execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BINARY_DIR}" --prefix "${prefix}"
                    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND arguments "-DCMAKE_PREFIX_PATH=${prefix}")
endif()

set(component shardwise)
if(MODE STREQUAL "readers")
    set(component readers)
    set(complaint "the component 'readers' needs nlohmann_json")
elseif(MODE STREQUAL "unknown")
    set(component telepathy)
    set(complaint "shardwise has no component 'telepathy'; its components are:")
endif()

set(build "${WORK}/build-${MODE}")
file(REMOVE_RECURSE "${build}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${SOURCE_DIR}/tests/consumer" -B "${build}" ${arguments}
                        "-DCONSUMER_COMPONENT=${component}"
                RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
if(complaint)
    # CMake wraps its messages; compare without line breaks.
    string(REGEX REPLACE "[ \n]+" " " flat "${printed}")
    string(FIND "${flat}" "${complaint}" found)
    if(status EQUAL 0 OR found EQUAL -1)
        message(FATAL_ERROR "expected a failure that says '${complaint}', got status ${status} and\n${printed}")
    endif()
    return()
endif()
if(NOT status EQUAL 0)
    message(FATAL_ERROR "the consumer does not configure:\n${printed}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${build}/consumer" COMMAND_ERROR_IS_FATAL ANY)
