# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)

# One target per component. They carry include paths and requirements only; everything is in the headers.

# The planning half: the standard library and nothing else.
add_library(shardwise INTERFACE)
add_library(shardwise::shardwise ALIAS shardwise)
target_compile_features(shardwise INTERFACE cxx_std_20)
target_include_directories(shardwise INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                               "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

# What reads files and asks the machine. nlohmann_json is only named here: whoever links this target must have found it.
# Threads and dlopen are libraries of their own where glibc is older than 2.34.
add_library(shardwise_readers INTERFACE)
add_library(shardwise::readers ALIAS shardwise_readers)
set_target_properties(shardwise_readers PROPERTIES EXPORT_NAME readers)
target_link_libraries(shardwise_readers INTERFACE shardwise nlohmann_json::nlohmann_json "$<$<PLATFORM_ID:Linux>:dl>")
target_link_options(shardwise_readers INTERFACE "$<$<PLATFORM_ID:Linux>:-pthread>")

# The executing half on the host: back end, kernels, communicators, parallel layers. shm_open is in a library of its own where
# glibc is older than 2.34.
add_library(shardwise_host INTERFACE)
add_library(shardwise::host ALIAS shardwise_host)
set_target_properties(shardwise_host PROPERTIES EXPORT_NAME host)
target_link_libraries(shardwise_host INTERFACE shardwise "$<$<PLATFORM_ID:Linux>:rt>")
target_link_options(shardwise_host INTERFACE "$<$<PLATFORM_ID:Linux>:-pthread>")

# What stands on other libraries, where it was asked for: AUTO takes what the machine has.
foreach(part CUDA HIP MPI GLOO ONEDNN)
    if(NOT SHARDWISE_${part})
        continue()
    endif()
    string(TOLOWER ${part} component)
    if(part MATCHES "CUDA|HIP")
        shardwise_add_device(${component} shardwise_${component}_missing)
    else()
        shardwise_add_component(${component})
    endif()
    if(NOT shardwise_${component}_missing)
        continue()
    endif()
    if(SHARDWISE_${part} STREQUAL "AUTO")
        message(STATUS "shardwise: no component '${component}': ${shardwise_${component}_missing} was not found")
    else()
        message(FATAL_ERROR "shardwise: SHARDWISE_${part} needs ${shardwise_${component}_missing}, which was not found. "
                            "Without it: -DSHARDWISE_${part}=OFF")
    endif()
endforeach()

# Compiled only where somebody links it.
if(TARGET nlohmann_json::nlohmann_json)
    shardwise_add_runtime()
endif()
