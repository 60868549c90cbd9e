# SPDX-License-Identifier: Apache-2.0
# The target shardwise::runtime: what loads and runs models, compiled once in the build that links it, by its compiler and flags.
# The build tree and the installed package read the same file.
#
#   find_package(shardwise REQUIRED COMPONENTS runtime)
#   target_link_libraries(engine PRIVATE shardwise::runtime)

# A folder that was found in an earlier run may be another installation's.
unset(shardwise_runtime_units CACHE)
find_path(shardwise_runtime_units run.cpp
          HINTS "${CMAKE_CURRENT_LIST_DIR}/../include/shardwise/session/runtime"
                "${CMAKE_CURRENT_LIST_DIR}/../../../include/shardwise/session/runtime" NO_DEFAULT_PATH)
mark_as_advanced(shardwise_runtime_units)

# shardwise_memory(OUT): the megabytes that this machine has, or the control group that bounds what is built in it.
function(shardwise_memory out)
    cmake_host_system_information(RESULT megabytes QUERY TOTAL_PHYSICAL_MEMORY)
    if(EXISTS "/sys/fs/cgroup/memory.max")
        file(STRINGS "/sys/fs/cgroup/memory.max" limit LIMIT_COUNT 1)
        if(limit MATCHES "^[0-9]+$")
            math(EXPR limit "${limit} / 1048576")
            if(limit LESS megabytes)
                set(megabytes ${limit})
            endif()
        endif()
    endif()
    set(${out} ${megabytes} PARENT_SCOPE)
endfunction()

# shardwise_add_runtime(): makes shardwise::runtime, which is built where somebody links it. shardwise::readers must be there.
function(shardwise_add_runtime)
    if(TARGET shardwise::runtime)
        return()
    endif()
    add_library(shardwise_runtime STATIC EXCLUDE_FROM_ALL
                "${shardwise_runtime_units}/complete_text.cpp"
                "${shardwise_runtime_units}/kernels.cpp"
                "${shardwise_runtime_units}/run.cpp")
    add_library(shardwise::runtime ALIAS shardwise_runtime)
    target_link_libraries(shardwise_runtime PUBLIC shardwise::readers shardwise::host)
    target_compile_definitions(shardwise_runtime PUBLIC SHARDWISE_HAS_RUNTIME=1)
    # What changes a type must be the same in all units of a program.
    foreach(component IN ITEMS mpi gloo onednn)
        if(TARGET shardwise::${component})
            target_link_libraries(shardwise_runtime PUBLIC shardwise::${component})
        endif()
    endforeach()
    # Where models run on devices too: a unit for each vendor, and the kernels.
    set(has_devices FALSE)
    foreach(vendor IN ITEMS cuda hip)
        if(TARGET shardwise::${vendor})
            target_sources(shardwise_runtime PRIVATE "${shardwise_runtime_units}/run_on_${vendor}.cpp")
            target_link_libraries(shardwise_runtime PUBLIC shardwise::${vendor})
            set(has_devices TRUE)
        endif()
    endforeach()
    if(has_devices)
        shardwise_add_kernels(shardwise_runtime)
    endif()
    # Kernels are never left without optimisation, also where the program is. The own tests, which time nothing, compile faster so.
    if(NOT SHARDWISE_RUNTIME_AS_BUILT)
        target_compile_options(shardwise_runtime PRIVATE "$<$<OR:$<CONFIG:>,$<CONFIG:Debug>>:-O2>")
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # g++ collects its garbage when it has used a GiB, not all the time.
        target_compile_options(shardwise_runtime PRIVATE --param=ggc-min-heapsize=1048576)
        # But for the largest unit where memory is short: half of it, in twice the time.
        shardwise_memory(megabytes)
        if(megabytes LESS 12000)
            set_property(SOURCE "${shardwise_runtime_units}/run.cpp" TARGET_DIRECTORY shardwise_runtime APPEND PROPERTY
                         COMPILE_OPTIONS --param=ggc-min-heapsize=131072 --param=ggc-min-expand=10)
        endif()
    endif()
    set_target_properties(shardwise_runtime PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF
                                                       UNITY_BUILD OFF)
endfunction()
