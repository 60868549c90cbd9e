# SPDX-License-Identifier: Apache-2.0
# One test executable per room that has tests, and the same again under ASan + UBSan by clang++.
#
# ctest entries of a room:
#   <room>         all cases outside the suites "long" and "models"; samples of the largest matrices (support/pair_sample.hpp)
#   asan.<room>    the same, sanitized, without the suites "timing", whose limits are for plain code, "large", whose paths
#                  smaller cases walk, and "fibers"
#   long.whole.<room>, long.asan.<room>  the whole of what those take samples of, with the label long
#   models.<room>  the suite "models" (real files under $SHARDWISE_MODELS), where the room has one
#   long.<room>    the suite "long", with the label long, where the room has one

# house: the checks of this tree themselves. model_files: model/files/, which needs nlohmann_json.
include("${CMAKE_CURRENT_LIST_DIR}/optional_headers.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/batches.cmake")

set(rooms house core quant json op hardware model model_files memory cost placement schedule plan deploy backend kernels comm calibrate
          launch monitor parallel device executor session tokenizer train cli)
# house checks the tree, cli runs the program, which is not sanitized here: nothing of ours would run under the sanitizers.
set(unsanitized_rooms house cli)
# Both configurations parse what most tests include once: it halves the time that the tests take to build.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp" "")
shardwise_program(test_precompiled tests "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp" $<TARGET_OBJECTS:doctest_main>)
target_include_directories(test_precompiled PRIVATE ${shardwise_test_includes})
target_include_directories(test_precompiled SYSTEM PRIVATE "${shardwise_doctest_include}")
target_compile_definitions(test_precompiled PRIVATE ${shardwise_test_definitions})
target_precompile_headers(test_precompiled PRIVATE support/precompiled.hpp)

set(plain_excludes long models)
if(shardwise_sanitized)
    list(APPEND plain_excludes timing large fibers)
endif()
list(JOIN plain_excludes "," plain_excludes)

# shardwise_sanitized_room(ROOM SOURCE...): test_<room>_asan from objects by clang++. The caller's optional_flags and
# optional_links are those of the libraries that the sources need.
# -O0 compiles two to three times as fast as -O1.
set(sanitized_flags -std=c++20 -O0 -g1 ${shardwise_sanitize_flags} ${shardwise_warnings}
                    -idirafter "${shardwise_doctest_include}")  # after: it may be a default folder, whose place matters
foreach(folder IN LISTS shardwise_test_includes)
    list(APPEND sanitized_flags "-I${folder}")
endforeach()
foreach(definition IN LISTS shardwise_test_definitions)
    list(APPEND sanitized_flags "-D${definition}")
endforeach()
if(shardwise_clang)
    set(sanitized_precompiled "${CMAKE_CURRENT_BINARY_DIR}/asan/precompiled.hpp.pch")
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/asan")
    add_custom_command(OUTPUT "${sanitized_precompiled}"
                       COMMAND "${shardwise_clang}" ${sanitized_flags} -MMD -MF "${sanitized_precompiled}.d"
                               -MT "${sanitized_precompiled}" -x c++-header
                               "${CMAKE_CURRENT_SOURCE_DIR}/support/precompiled.hpp" -o "${sanitized_precompiled}"
                       DEPENDS support/precompiled.hpp
                       DEPFILE "${sanitized_precompiled}.d"
                       COMMENT "clang: tests/support/precompiled.hpp"
                       VERBATIM)
    add_custom_target(asan_precompiled DEPENDS "${sanitized_precompiled}")
endif()

function(shardwise_sanitized_room room)
    set(objects "")
    foreach(source IN LISTS ARGN)
        cmake_path(GET source STEM name)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/asan/${room}/${name}.o")
        shardwise_compile(OUT "${object}" SOURCE "${source}" COMPILER clang
                          FLAGS ${sanitized_flags} ${optional_flags} -include-pch "${sanitized_precompiled}" AFTER "${sanitized_precompiled}")
        list(APPEND objects "${object}")
    endforeach()
    set(program "${PROJECT_BINARY_DIR}/tests/test_${room}_asan")
    add_custom_command(OUTPUT "${program}"
                       COMMAND "${shardwise_clang}" ${shardwise_sanitize_flags} ${objects}
                               "$<TARGET_OBJECTS:doctest_main>" ${optional_links} -o "${program}"
                       DEPENDS ${objects} doctest_main "$<TARGET_OBJECTS:doctest_main>"
                       COMMENT "clang: test_${room}_asan"
                       COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(asan_${room} ALL DEPENDS "${program}")
    add_dependencies(asan_${room} asan_precompiled)
    shardwise_room_test(asan.${room} "${program}" --test-suite-exclude=long,models,timing,large,fibers)
    shardwise_sample(asan.${room} long.asan.${room} ${room} "${program}" --test-suite-exclude=long,models,timing,large,fibers)
endfunction()

# shardwise_sample(NAME WHOLE ROOM PROGRAM ARGUMENT...): lets a test take samples, and adds the whole of it with the label long, where the
# room has matrices of which there are samples.
function(shardwise_sample name whole room program)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.[ch]pp")
    set(is_sampled FALSE)
    foreach(file IN LISTS files)
        file(STRINGS "${file}" included REGEX "#include \"pair_sample.hpp\"" LIMIT_COUNT 1)
        if(included)
            set(is_sampled TRUE)
        endif()
    endforeach()
    if(is_sampled)
        set_tests_properties(${name} PROPERTIES ENVIRONMENT SHARDWISE_SAMPLES=1)
        shardwise_room_test(${whole} "${program}" ${ARGN})
        set_tests_properties(${whole} PROPERTIES LABELS long TIMEOUT 7200)
    endif()
endfunction()

# shardwise_room_test(NAME PROGRAM ARGUMENT...)
function(shardwise_room_test name program)
    add_test(NAME ${name} COMMAND "${program}" ${ARGN} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 2700)
endfunction()

foreach(room IN LISTS rooms)
    if(room STREQUAL "model_files")
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS model/files/*_test.cpp)
    else()
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room}/*_test.cpp)
        list(FILTER sources EXCLUDE REGEX "/tests/model/files/")
    endif()
    set(optional_flags "")
    set(optional_links "")
    foreach(source IN LISTS sources)
        shardwise_needs("${source}" missing flags links)
        list(APPEND optional_flags ${flags})
        list(APPEND optional_links ${links})
        if(missing)
            list(REMOVE_ITEM sources "${source}")
            cmake_path(GET source STEM name)
            shardwise_skipped_test(${room}.${name} "its library is not installed: ${missing}")
        endif()
    endforeach()
    list(REMOVE_DUPLICATES optional_links)
    if(NOT sources)
        continue()
    endif()

    shardwise_batches(units ${room} ${sources})
    shardwise_program(test_${room} tests ${units} $<TARGET_OBJECTS:doctest_main>)
    target_include_directories(test_${room} PRIVATE ${shardwise_test_includes})
    target_include_directories(test_${room} SYSTEM PRIVATE "${shardwise_doctest_include}")
    target_compile_definitions(test_${room} PRIVATE ${shardwise_test_definitions})
    target_compile_options(test_${room} PRIVATE ${optional_flags})
    target_link_libraries(test_${room} PRIVATE ${optional_links})
    target_precompile_headers(test_${room} REUSE_FROM test_precompiled)
    shardwise_room_test(${room} test_${room} --test-suite-exclude=${plain_excludes})
    shardwise_sample(${room} long.whole.${room} ${room} test_${room} --test-suite-exclude=${plain_excludes})

    set(text "")
    foreach(source IN LISTS sources)
        file(STRINGS "${source}" lines REGEX "\"(long|models)\"")
        string(APPEND text "${lines}")
    endforeach()
    foreach(suite long models)
        if(text MATCHES "\"${suite}\"")
            shardwise_room_test(${suite}.${room} test_${room} --test-suite=${suite})
            set_tests_properties(${suite}.${room} PROPERTIES LABELS ${suite})
        endif()
    endforeach()
    if(text MATCHES "\"long\"")
        set_tests_properties(long.${room} PROPERTIES TIMEOUT 7200)
    endif()

    if(room STREQUAL "cli")
        # It starts programs, and containers, and waits for them.
        set_tests_properties(cli PROPERTIES TIMEOUT 600)
    endif()
    if(room STREQUAL "cli" AND TARGET shardwise_program)
        add_dependencies(test_cli shardwise_program)
    endif()
    if(NOT room IN_LIST unsanitized_rooms AND NOT shardwise_sanitized)
        if(shardwise_clang)
            shardwise_sanitized_room(${room} ${units})
        else()
            shardwise_skipped_test(asan.${room} "clang++ is not installed")
        endif()
    endif()
endforeach()
