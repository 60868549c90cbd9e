# SPDX-License-Identifier: Apache-2.0
# Kernels that are compiled at run time (SHARDWISE_CUDA_JIT): the launches of all kernels by the host's compiler, and the cases of
# device/jit_cases.cpp over a fake driver. They need CUDA's headers, and libnvrtc where a kernel is compiled; no GPU and no nvcc.
if(NOT TARGET shardwise::cuda)
    shardwise_absent_test(device.jit "CUDA's headers are not installed")
    return()
endif()
if(shardwise_sanitized)
    return()
endif()
add_library(fake_cuda MODULE fakes/cuda_driver.cpp)
target_compile_features(fake_cuda PRIVATE cxx_std_20)
# As the loader looks for it.
set_target_properties(fake_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fakes/driver"
                                           OUTPUT_NAME cuda SUFFIX .so.1)

set(sources "${CMAKE_CURRENT_BINARY_DIR}/jit-device-sources.cpp")
shardwise_device_sources("${sources}")
add_executable(test_device_jit device/jit_cases.cpp "${sources}" $<TARGET_OBJECTS:doctest_main>)
target_compile_features(test_device_jit PRIVATE cxx_std_20)
target_include_directories(test_device_jit PRIVATE ${shardwise_test_includes})
target_include_directories(test_device_jit SYSTEM PRIVATE "${shardwise_doctest_include}"
                           "$<TARGET_PROPERTY:CUDA::cudart,INTERFACE_INCLUDE_DIRECTORIES>")
target_compile_definitions(test_device_jit PRIVATE ${shardwise_test_definitions})
target_compile_options(test_device_jit PRIVATE ${shardwise_warnings})
target_link_libraries(test_device_jit PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(test_device_jit fake_cuda)
set_target_properties(test_device_jit PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" CXX_EXTENSIONS OFF)
shardwise_assertion_flags(assertions test_device_jit)
foreach(family IN LISTS shardwise_kernel_families)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/device-jit-${family}.o")
    shardwise_read_kernels("${object}" "${PROJECT_SOURCE_DIR}/include/shardwise/kernels/instantiate/${family}.cu" -O0
                           -Wall -Wextra -Wshadow -Wconversion -Werror ${assertions})
    target_sources(test_device_jit PRIVATE "${object}")
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
endforeach()

add_test(NAME device.jit COMMAND test_device_jit --test-suite-exclude=long WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
add_test(NAME long.device.jit COMMAND test_device_jit --test-suite=long WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
# What needs no libnvrtc fails where it is wrong: ctest calls a whole entry skipped that says so, whatever else failed in it.
add_test(NAME device.jit.host COMMAND test_device_jit --test-suite-exclude=long "--test-case-exclude=NVRTC*,Run-time kernels*"
         WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
set_tests_properties(device.jit device.jit.host long.device.jit PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/tests/fakes/driver"
                                                           TIMEOUT 600)
set_tests_properties(device.jit long.device.jit PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: no libnvrtc")
set_tests_properties(long.device.jit PROPERTIES LABELS long TIMEOUT 3600)
