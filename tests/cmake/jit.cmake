# SPDX-License-Identifier: Apache-2.0
# Kernels that are compiled at run time (SHARDWISE_CUDA_JIT, SHARDWISE_HIP_JIT): the launches of all kernels by the host's compiler, and the
# cases of device/jit_cases.cpp over a fake driver, of device/hip_jit_cases.cpp over a fake runtime. They need the vendor's headers, and
# libnvrtc or hipRTC where a kernel is compiled; no GPU, nvcc or hipcc.
if(shardwise_sanitized)
    return()
endif()

# shardwise_jit_test(TARGET VENDOR HEADERS COMPILER SOURCE...): the executable with all launches of a vendor, and what its test is where
# COMPILER is not installed.
function(shardwise_jit_test target vendor headers compiler)
    set(sources "${CMAKE_CURRENT_BINARY_DIR}/${target}-device-sources.cpp")
    shardwise_device_sources("${sources}")
    add_executable(${target} ${ARGN} "${sources}" $<TARGET_OBJECTS:doctest_main>)
    target_compile_features(${target} PRIVATE cxx_std_20)
    target_include_directories(${target} PRIVATE ${shardwise_test_includes})
    target_include_directories(${target} SYSTEM PRIVATE "${shardwise_doctest_include}" "${headers}")
    target_compile_definitions(${target} PRIVATE ${shardwise_test_definitions})
    target_compile_options(${target} PRIVATE ${shardwise_warnings})
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" CXX_EXTENSIONS OFF)
    shardwise_assertion_flags(assertions ${target})
    foreach(family IN LISTS shardwise_kernel_families)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}-${family}.o")
        shardwise_read_kernels(${vendor} "${object}" "${PROJECT_SOURCE_DIR}/include/shardwise/kernels/instantiate/${family}.cu" -O0
                               -Wall -Wextra -Wshadow -Wconversion -Werror ${assertions})
        target_sources(${target} PRIVATE "${object}")
        set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    endforeach()
    string(REPLACE "test_" "" name "${target}")
    string(REPLACE "_" "." name "${name}")
    add_test(NAME ${name} COMMAND ${target} --test-suite-exclude=long WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    add_test(NAME long.${name} COMMAND ${target} --test-suite=long WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    # What needs no compiler fails where it is wrong: ctest calls a whole entry skipped that says so, whatever else failed in it.
    add_test(NAME ${name}.host COMMAND ${target} --test-suite-exclude=long "--test-case-exclude=NVRTC*,hipRTC*,Run-time kernels*"
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${name} ${name}.host PROPERTIES TIMEOUT 600)
    set_tests_properties(${name} long.${name} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: no ${compiler}")
    set_tests_properties(long.${name} PROPERTIES LABELS long TIMEOUT 3600)
endfunction()

if(TARGET shardwise::cuda)
    add_library(fake_cuda MODULE fakes/cuda_driver.cpp)
    target_compile_features(fake_cuda PRIVATE cxx_std_20)
    # As the loader looks for it.
    set_target_properties(fake_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fakes/driver"
                                               OUTPUT_NAME cuda SUFFIX .so.1)
    shardwise_jit_test(test_device_jit cuda "$<TARGET_PROPERTY:CUDA::cudart,INTERFACE_INCLUDE_DIRECTORIES>" libnvrtc
                       device/jit_cases.cpp)
    add_dependencies(test_device_jit fake_cuda)
    set_tests_properties(device.jit device.jit.host long.device.jit PROPERTIES ENVIRONMENT
                         "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/fakes/driver")
else()
    shardwise_absent_test(device.jit "CUDA's headers are not installed")
endif()

if(shardwise_hip_include)
    shardwise_jit_test(test_device_jit_hip hip "${shardwise_hip_include}" hipRTC device/hip_jit_cases.cpp fakes/hip_runtime.cpp)
    target_compile_definitions(test_device_jit_hip PRIVATE __HIP_PLATFORM_AMD__=1)
else()
    shardwise_absent_test(device.jit.hip "HIP's headers are not installed")
endif()
