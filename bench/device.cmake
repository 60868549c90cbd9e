# SPDX-License-Identifier: Apache-2.0
# The benchmarks of devices: bench/bench_device_x.cpp becomes bin/bench_device_x-VENDOR.
set(shardwise_bench_folder "${CMAKE_CURRENT_LIST_DIR}")

# shardwise_device_benches(VENDOR): the programs for cuda, hip or fake (tests/device/fake_vendor.hpp), and device_benches_VENDOR, all of
# them, which nothing else builds. The kernels are compiled once for all, as bench_device_kernels_VENDOR.
function(shardwise_device_benches vendor)
    file(GLOB mains CONFIGURE_DEPENDS "${shardwise_bench_folder}/bench_device_*.cpp")
    set(kernels bench_device_kernels_${vendor})
    add_library(${kernels} STATIC EXCLUDE_FROM_ALL)
    target_compile_features(${kernels} PUBLIC cxx_std_20)
    set_target_properties(${kernels} PROPERTIES LINKER_LANGUAGE CXX CXX_EXTENSIONS OFF)
    target_include_directories(${kernels} PUBLIC "${shardwise_bench_folder}")
    if(vendor STREQUAL "fake")
        find_package(Threads REQUIRED)
        target_sources(${kernels} PRIVATE "${shardwise_bench_folder}/fake_kernels.cpp")
        target_include_directories(${kernels} PUBLIC "${shardwise_bench_folder}/../tests/device")
        target_link_libraries(${kernels} PUBLIC shardwise::host Threads::Threads)
    else()
        target_link_libraries(${kernels} PUBLIC shardwise::${vendor})
        shardwise_add_kernels(${kernels})
    endif()
    add_custom_target(device_benches_${vendor})
    foreach(main IN LISTS mains)
        cmake_path(GET main STEM name)
        add_executable(${name}-${vendor} EXCLUDE_FROM_ALL "${main}")
        target_link_libraries(${name}-${vendor} PRIVATE ${kernels})
        target_compile_options(${name}-${vendor} PRIVATE -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow)
        set_target_properties(${name}-${vendor} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin"
                                                           CXX_EXTENSIONS OFF)
        add_dependencies(device_benches_${vendor} ${name}-${vendor})
    endforeach()
endfunction()
