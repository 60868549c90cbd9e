# SPDX-License-Identifier: Apache-2.0
# What holds for every header, by both compilers, and for code that must not compile.

file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/*.hpp")
list(SORT headers)
include("${CMAKE_CURRENT_LIST_DIR}/optional_headers.cmake")
set(optional_flags "")
foreach(header IN LISTS headers)
    shardwise_needs("${header}" missing flags links)
    list(APPEND optional_flags ${flags})
    if(NOT missing)
        continue()
    endif()
    list(REMOVE_ITEM headers "${header}")
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/include" OUTPUT_VARIABLE name)
    shardwise_skipped_test(headers.${name} "its library is not installed: ${missing}")
endforeach()

# Each header alone and twice (chain by chain), then all of them in one unit that defines nothing a second one would define again: all
# but HIP's, whose runtime and CUDA's declare the same names. By clang++, which takes two thirds of g++'s time and reads the same
# standard library. The suite takes every twentieth chain; all of them, g++, and two units (in opposite orders) that are linked, have
# the label `long`.
include("${CMAKE_CURRENT_LIST_DIR}/header_chains.cmake")
shardwise_header_chains(chains "${PROJECT_SOURCE_DIR}/include" ${headers})
set(all_text "")
set(all_text_reversed "")
foreach(header IN LISTS headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/include" OUTPUT_VARIABLE name)
    if(name MATCHES "/hip(_api|_driver|_jit|_products|blaslt)?[.]hpp$")
        continue()
    endif()
    string(APPEND all_text "#include <${name}>\n")
    string(PREPEND all_text_reversed "#include <${name}>\n")
endforeach()
set(header_dir "${CMAKE_CURRENT_BINARY_DIR}/headers")
foreach(last IN LISTS chains)
    set(text "")
    foreach(name IN LISTS ${last}_chain)
        string(APPEND text "#include <${name}>\n" "#include <${name}>\n")
    endforeach()
    file(CONFIGURE OUTPUT "${header_dir}/chains/${last}.cpp" CONTENT "${text}" @ONLY)
endforeach()
file(GLOB_RECURSE level_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/*.inc")
file(CONFIGURE OUTPUT "${header_dir}/all.cpp" CONTENT "${all_text}" @ONLY)
file(CONFIGURE OUTPUT "${header_dir}/all_reversed.cpp" CONTENT "${all_text_reversed}int main() {}\n" @ONLY)

set(only_inline "${CMAKE_CURRENT_LIST_DIR}/only_inline.cmake")
add_custom_target(source_checks)
foreach(compiler gcc clang)
    if(NOT shardwise_${compiler})
        shardwise_skipped_test(headers.${compiler} "${compiler}'s C++ compiler is not installed")
        shardwise_skipped_test(static.${compiler} "${compiler}'s C++ compiler is not installed")
        continue()
    endif()
    set(alone "")
    set(some "")
    set(number 0)
    foreach(last IN LISTS chains)
        list(LENGTH ${last}_chain length)
        set(object "${header_dir}/${compiler}/${last}.checked")
        shardwise_compile(CHECK OUT "${object}" SOURCE "${header_dir}/chains/${last}.cpp" COMPILER ${compiler}
                          NOTE "${last}, ${length} headers alone and twice"
                          FLAGS ${shardwise_strict_flags} ${optional_flags})
        list(APPEND alone "${object}")
        math(EXPR number "${number} + 1")
        math(EXPR turn "${number} % 20")
        if(turn EQUAL 1)
            list(APPEND some "${object}")
        endif()
    endforeach()
    # What is included once for each instruction set level parses alone, as an editor opens it.
    set(parsed "")
    foreach(source IN LISTS level_files)
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/include" OUTPUT_VARIABLE name)
        set(object "${header_dir}/${compiler}/${name}.checked")
        shardwise_compile(CHECK OUT "${object}" SOURCE "${source}" COMPILER ${compiler} FLAGS ${shardwise_strict_flags})
        list(APPEND parsed "${object}")
    endforeach()
    set(linked "")
    foreach(unit all all_reversed)
        set(object "${header_dir}/${compiler}/${unit}.o")
        shardwise_compile(OUT "${object}" SOURCE "${header_dir}/${unit}.cpp" COMPILER ${compiler}
                          FLAGS ${shardwise_strict_flags} ${optional_flags} AFTER ${some})
        list(APPEND linked "${object}")
    endforeach()
    add_custom_command(OUTPUT "${header_dir}/${compiler}/linked"
                       COMMAND "${shardwise_${compiler}}" ${linked} -o "${header_dir}/${compiler}/linked"
                       DEPENDS ${linked} COMMENT "${compiler}: all headers, linked" VERBATIM)
    list(GET linked 0 all_headers)
    set(inline_stamp "${header_dir}/${compiler}/only_inline")
    add_custom_command(OUTPUT "${inline_stamp}"
                       COMMAND "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DOBJECT=${all_headers}" -P "${only_inline}"
                       COMMAND "${CMAKE_COMMAND}" -E touch "${inline_stamp}"
                       DEPENDS "${all_headers}" "${only_inline}"
                       COMMENT "${compiler}: all headers define what is inline" VERBATIM)
    add_custom_target(whole_headers_${compiler} DEPENDS ${alone} ${parsed} "${header_dir}/${compiler}/linked")
    shardwise_built_test(long.headers.${compiler} whole_headers_${compiler})
    set_tests_properties(long.headers.${compiler} PROPERTIES LABELS long TIMEOUT 7200)
    if(compiler STREQUAL "clang" OR NOT shardwise_clang)
        add_custom_target(headers_${compiler} DEPENDS ${some} ${parsed} "${inline_stamp}")
        add_dependencies(source_checks headers_${compiler})
        shardwise_built_test(headers.${compiler} headers_${compiler})
    endif()

    # Constant expressions: tests/static/*.cpp need only compile, at the compilers' default limits.
    file(GLOB_RECURSE statics CONFIGURE_DEPENDS static/*.cpp)
    set(objects "")
    foreach(source IN LISTS statics)
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE name)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/static-${compiler}/${name}.checked")
        # Compiler flags of its own, where the first line says so.
        file(STRINGS "${source}" first_line LIMIT_COUNT 1)
        set(own_flags "")
        if(first_line MATCHES "^// flags: (.+)$")
            separate_arguments(own_flags UNIX_COMMAND "${CMAKE_MATCH_1}")
        endif()
        shardwise_compile(CHECK OUT "${object}" SOURCE "${source}" COMPILER ${compiler}
                          FLAGS ${shardwise_strict_flags} ${own_flags})
        list(APPEND objects "${object}")
    endforeach()
    if(statics)
        add_custom_target(static_${compiler} DEPENDS ${objects})
        add_dependencies(source_checks static_${compiler})
        shardwise_built_test(static.${compiler} static_${compiler})
    endif()
endforeach()

# Code that must not compile, and why.
set(compiler_paths "")
foreach(compiler IN LISTS shardwise_compilers)
    list(APPEND compiler_paths "${shardwise_${compiler}}")
endforeach()
file(GLOB_RECURSE failing CONFIGURE_DEPENDS compile_fail/*.cpp)
foreach(source IN LISTS failing)
    cmake_path(GET source STEM name)
    add_test(NAME compile_fail.${name}
             COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${source}" "-DCOMPILERS=${compiler_paths}"
                     "-DFLAGS=${shardwise_strict_flags}" -P "${CMAKE_CURRENT_LIST_DIR}/compile_fail.cmake")
endforeach()

# The harness must refuse what is wrong: a file that compiles, one that fails for another reason, one that stays broken.
file(GLOB planted CONFIGURE_DEPENDS house/planted/*.cpp)
foreach(source IN LISTS planted)
    cmake_path(GET source STEM name)
    add_test(NAME house.compile_fail.${name}
             COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${source}" "-DCOMPILERS=${compiler_paths}"
                     "-DFLAGS=${shardwise_strict_flags}" -P "${CMAKE_CURRENT_LIST_DIR}/compile_fail.cmake")
    file(STRINGS "${source}" refusal REGEX "^// refused: ")
    string(REPLACE "// refused: " "" refusal "${refusal}")
    set_tests_properties(house.compile_fail.${name} PROPERTIES PASS_REGULAR_EXPRESSION "${refusal}")
endforeach()

# The same of what looks for definitions that are not inline.
add_library(planted_unit OBJECT house/planted_units/defined_twice.cpp)
add_test(NAME house.only_inline
         COMMAND "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DOBJECT=$<TARGET_OBJECTS:planted_unit>" -P "${only_inline}")
set_tests_properties(house.only_inline PROPERTIES PASS_REGULAR_EXPRESSION "would define again:[ \n]+[0-9a-f]+ T of_one_unit\\(\\)[ \n]*$")

# Layers and file rules.
shardwise_program(check_layers tests house/check_layers.cpp)
add_test(NAME layers COMMAND check_layers "${PROJECT_SOURCE_DIR}")
