# SPDX-License-Identifier: Apache-2.0
# What every executable of this project is built with.

set(shardwise_warnings -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow)

# g++ collects its garbage when it has used a GiB, not all the time: a sixth of the time of units full of templates.
set(shardwise_gcc_speed --param=ggc-min-heapsize=1048576)

# shardwise_warn(TARGET): our warnings.
function(shardwise_warn target)
    target_compile_options(${target} PRIVATE ${shardwise_warnings})
    # g++ 12 warns of overlapping copies in "text" + std::string at -O3 where there are none (GCC bug 105651).
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        target_compile_options(${target} PRIVATE -Wno-restrict)
    endif()
endfunction()

# shardwise_program(NAME FOLDER SOURCE...): an executable in FOLDER of the build tree, with our warnings.
function(shardwise_program name folder)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE shardwise::readers shardwise::host)
    shardwise_warn(${name})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(${name} PRIVATE ${shardwise_gcc_speed})
    endif()
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}"
                                             CXX_EXTENSIONS OFF)
endfunction()
