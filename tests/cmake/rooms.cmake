# One test executable per room that has tests, and the same again under ASan + UBSan by clang++.
#
# ctest entries of a room:
#   <room>         all cases outside the suites "long" and "models"
#   asan.<room>    the same, sanitized, without the suite "timing", whose limits are for plain code
#   models.<room>  the suite "models" (real files under $SHARDWISE_MODELS), where the room has one
#   long.<room>    the suite "long", with the label long, where the room has one

# house: the checks of this tree themselves. model_files: model/files/, which needs nlohmann_json.
set(rooms house core quant json op hardware model model_files memory cost placement schedule plan deploy tokenizer cli)
set(unsanitized_rooms house)
# Sanitized code compiles two to three times as fast at -O0; these rooms compute long enough to be worth -O1.
set(optimized_rooms placement cost)

set(plain_excludes long models)
if(shardwise_sanitized)
    list(APPEND plain_excludes timing)
endif()
list(JOIN plain_excludes "," plain_excludes)

# shardwise_sanitized_room(ROOM SOURCE...): test_<room>_asan from objects by clang++.
function(shardwise_sanitized_room room)
    set(objects "")
    set(optimization -O0)
    if(room IN_LIST optimized_rooms)
        set(optimization -O1)
    endif()
    set(flags -std=c++20 ${optimization} -g1 ${shardwise_sanitize_flags} ${shardwise_warnings}
              -idirafter "${shardwise_doctest_include}")  # after: it may be a default folder, whose place matters
    list(TRANSFORM shardwise_test_includes PREPEND "-I" OUTPUT_VARIABLE includes)
    list(TRANSFORM shardwise_test_definitions PREPEND "-D" OUTPUT_VARIABLE definitions)
    foreach(source IN LISTS ARGN)
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE name)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/asan/${name}.o")
        shardwise_compile(OUT "${object}" SOURCE "${source}" COMPILER clang FLAGS ${flags} ${includes} ${definitions})
        list(APPEND objects "${object}")
    endforeach()
    set(program "${PROJECT_BINARY_DIR}/tests/test_${room}_asan")
    add_custom_command(OUTPUT "${program}"
                       COMMAND "${shardwise_clang}" ${shardwise_sanitize_flags} ${objects}
                               "$<TARGET_OBJECTS:doctest_main>" -o "${program}"
                       DEPENDS ${objects} doctest_main "$<TARGET_OBJECTS:doctest_main>"
                       COMMENT "clang: test_${room}_asan"
                       COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(asan_${room} ALL DEPENDS "${program}")
    shardwise_room_test(asan.${room} "${program}" --test-suite-exclude=long,models,timing)
endfunction()

# shardwise_room_test(NAME PROGRAM ARGUMENT...)
function(shardwise_room_test name program)
    add_test(NAME ${name} COMMAND "${program}" ${ARGN} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()

foreach(room IN LISTS rooms)
    if(room STREQUAL "model_files")
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS model/files/*_test.cpp)
    else()
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room}/*_test.cpp)
        list(FILTER sources EXCLUDE REGEX "/tests/model/files/")
    endif()
    if(NOT sources)
        continue()
    endif()

    shardwise_program(test_${room} tests ${sources} $<TARGET_OBJECTS:doctest_main>)
    target_include_directories(test_${room} PRIVATE ${shardwise_test_includes})
    target_include_directories(test_${room} SYSTEM PRIVATE "${shardwise_doctest_include}")
    target_compile_definitions(test_${room} PRIVATE ${shardwise_test_definitions})
    shardwise_room_test(${room} test_${room} --test-suite-exclude=${plain_excludes})

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

    if(room STREQUAL "cli" AND TARGET shardwise_program)
        add_dependencies(test_cli shardwise_program)
    endif()
    if(NOT room IN_LIST unsanitized_rooms AND NOT shardwise_sanitized)
        if(shardwise_clang)
            shardwise_sanitized_room(${room} ${sources})
        else()
            shardwise_skipped_test(asan.${room} "clang++ is not installed")
        endif()
    endif()
endforeach()
