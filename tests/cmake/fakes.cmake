# SPDX-License-Identifier: Apache-2.0
# Libraries that tests load in place of real ones, tests/fakes/*.cpp: the vendors' for detection, the system's for faults.
function(shardwise_fake name source)
    add_library(${name} MODULE fakes/${source})
    target_compile_features(${name} PRIVATE cxx_std_20)
    target_compile_definitions(${name} PRIVATE ${ARGN})
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fakes")
    foreach(room hardware monitor cli device)
        foreach(target test_${room} asan_${room})
            if(TARGET ${target})
                add_dependencies(${target} ${name})
            endif()
        endforeach()
    endforeach()
endfunction()

shardwise_fake(fake_nvml nvml.cpp)
shardwise_fake(fake_nvml_without_uuid nvml.cpp FAKE_NVML_WITHOUT_UUID)
shardwise_fake(fake_amd_smi amd_smi.cpp)
shardwise_fake(fake_amd_smi_without_memory amd_smi.cpp FAKE_AMD_SMI_WITHOUT_MEMORY)
# Counts what a program writes, and ends it in the midst of it.
shardwise_fake(watched_files watched_files.cpp)
# Makes one rank's reads of its data slow.
shardwise_fake(slow_reads slow_reads.cpp)
# NCCL between processes, over the fake vendor's streams.
shardwise_fake(fake_nccl nccl.cpp)
target_include_directories(fake_nccl PRIVATE "${PROJECT_SOURCE_DIR}/include")
# CUDA's driver, which maps memory by file descriptors.
shardwise_fake(fake_cuda_mapping cuda_mapping.cpp)
target_include_directories(fake_cuda_mapping PRIVATE "${PROJECT_SOURCE_DIR}/include")
