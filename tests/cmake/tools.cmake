# SPDX-License-Identifier: Apache-2.0
# What the checks below share: the two compilers, one way to compile a file with either, visible skips.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(shardwise_gcc "${CMAKE_CXX_COMPILER}")
else()
    find_program(shardwise_gcc NAMES g++ g++-12)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(shardwise_clang "${CMAKE_CXX_COMPILER}")
else()
    find_program(shardwise_clang NAMES clang++ clang++-14)
endif()
set(shardwise_compilers "")
foreach(compiler gcc clang)
    if(shardwise_${compiler})
        list(APPEND shardwise_compilers ${compiler})
    endif()
endforeach()

set(shardwise_strict_flags -std=c++20 ${shardwise_warnings} -Werror "-I${PROJECT_SOURCE_DIR}/include")
set(shardwise_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)

# shardwise_compile(OUT FILE SOURCE FILE COMPILER gcc|clang FLAGS ... [AFTER FILE...] [CHECK]): an object, remade when a header
# changes, and not tried before the files of AFTER are made. CHECK: an empty file that says that it compiles; no code is made
# (half of the time).
function(shardwise_compile)
    cmake_parse_arguments(arg "CHECK" "OUT;SOURCE;COMPILER;NOTE" "FLAGS;AFTER" ${ARGN})
    if(NOT arg_NOTE)
        cmake_path(RELATIVE_PATH arg_SOURCE BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE arg_NOTE)
    endif()
    cmake_path(GET arg_OUT PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    # An empty source means that the flags name all there is to compile (-include).
    set(source "${arg_SOURCE}")
    if(source STREQUAL "")
        set(source /dev/null)
    endif()
    if(arg_COMPILER STREQUAL "gcc")
        list(PREPEND arg_FLAGS ${shardwise_gcc_speed})
    endif()
    set(made -c -o "${arg_OUT}")
    set(finished "")
    if(arg_CHECK)
        set(made -fsyntax-only)
        set(finished COMMAND "${CMAKE_COMMAND}" -E touch "${arg_OUT}")
    endif()
    add_custom_command(
        OUTPUT "${arg_OUT}"
        COMMAND "${shardwise_${arg_COMPILER}}" ${arg_FLAGS} -MMD -MF "${arg_OUT}.d" -MT "${arg_OUT}"
                -x c++ "${source}" ${made}
        ${finished}
        DEPENDS ${arg_SOURCE} ${arg_AFTER}
        DEPFILE "${arg_OUT}.d"
        COMMENT "${arg_COMPILER}: ${arg_NOTE}"
        VERBATIM)
endfunction()

# shardwise_skipped_test(NAME REASON): stands in the list of tests as skipped; in CI it fails.
function(shardwise_skipped_test name reason)
    add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" "-DREASON=${reason}"
                                  -P "${PROJECT_SOURCE_DIR}/tests/cmake/skip.cmake")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED:")
endfunction()

# shardwise_built_test(NAME TARGET): passes when TARGET builds. The build is the cheap way to check again what changed.
function(shardwise_built_test name target)
    add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --parallel 2 --target ${target}
                                  -- -k 0)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2 RESOURCE_LOCK build_tree)
endfunction()
