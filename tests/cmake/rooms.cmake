# SPDX-License-Identifier: Apache-2.0
# One test executable per room that has tests, and the same again under ASan + UBSan by clang++.
#
# ctest entries of a room:
#   <room>         all cases outside the suites "long" and "models"; samples of the largest matrices (support/pair_sample.hpp)
#   asan.<room>    most of the same, sanitized, without the suites "timing", whose limits are for plain code, "large", whose paths
#                  smaller cases walk, and "fibers"
#   device.ranks   of device, the cases whose ranks wait for each other, which run beside no other test
#   long.whole.<room>, long.asan.<room>  the whole of what those take a part of, with the label long
#   long.gcc.<room>  <room> as g++ compiles it, with the label long, where clang++ compiles it for the suite
#   models.<room>  the suite "models" (real files under $SHARDWISE_MODELS), where the room has one
#   long.<room>    the suite "long", with the label long, where the room has one

# house: the checks of this tree themselves. model_files: model/files/, which needs nlohmann_json.
include("${CMAKE_CURRENT_LIST_DIR}/optional_headers.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/batches.cmake")

set(rooms house core quant json op hardware model model_files memory cost placement schedule plan deploy backend kernels comm calibrate
          launch monitor parallel device executor session tokenizer train cli)
# house checks the tree, cli runs the program, which is not sanitized here: nothing of ours would run under the sanitizers.
set(unsanitized_rooms house cli)
# By clang++, which takes three fifths of the time that g++ takes to compile them: all but the rooms whose results may depend on what a
# compiler makes of arithmetic, of threads, or of the processor.
set(gcc_rooms core quant op hardware backend kernels comm)
# Sanitized where the label is long: rooms that compute with values alone, readers, which the fuzzers run sanitized with worse files, and
# what the rooms above call.
set(long_sanitized_rooms json op model model_files memory cost placement schedule plan deploy calibrate backend tokenizer)
# Files that take longest to compile, on paths that others walk: sanitized where the label is long, with all others.
set(long_sanitized_files
    device/kernel_list
    executor/check_bound executor/compute_beside executor/loaded_shards executor/prefill_chunk executor/rank_adapters
    executor/rank_encoders executor/rank_executor executor/rank_experts executor/rank_families executor/rank_packed
    executor/training/rounded_values executor/training/run_sums executor/training/tensor_ranks
    executor/training/training_pass
    parallel/block_over_gloo parallel/combined parallel/deterministic_costs parallel/null_views parallel/pipeline_over_gloo
    parallel/tensor_parallel
    session/own_family session/process_memory session/run_on_threads session/run_trace session/run_with_encoder
    session/serve_on_threads session/session session/trace_cost
    train/adam8bit_ranks train/check_gradients train/checkpoint/checkpoint_phases train/checkpoint/merge_checkpoint
    train/checkpoint/resume_checkpoint train/checkpoint/save_checkpoint train/estimate_training train/held_base train/measure_passes
    train/one_copy train/own_loop train/shared_base train/sum_twice train/trained_adapter train/trainer_faults train/trainer_offload
    train/trainer_over_gloo train/trainer_phases train/trainer_ranks train/trainer_skipped train/trainer_stages train/trainer_sums
    train/trainer_validation)
list(TRANSFORM long_sanitized_files PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
list(TRANSFORM long_sanitized_files APPEND "_test.cpp")
foreach(file IN LISTS long_sanitized_files)
    if(NOT EXISTS "${file}")
        message(FATAL_ERROR "long_sanitized_files: there is no ${file}")
    endif()
endforeach()
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

# -O0 compiles two to three times as fast as -O1.
set(clang_flags -std=c++20 -O0 ${shardwise_warnings}
                -idirafter "${shardwise_doctest_include}")  # after: it may be a default folder, whose place matters
foreach(folder IN LISTS shardwise_test_includes)
    list(APPEND clang_flags "-I${folder}")
endforeach()
foreach(definition IN LISTS shardwise_test_definitions)
    list(APPEND clang_flags "-D${definition}")
endforeach()
set(plain_flags -Werror)
set(asan_flags -g1 ${shardwise_sanitize_flags})
if(shardwise_clang)
    foreach(kind plain asan)
        set(${kind}_precompiled "${CMAKE_CURRENT_BINARY_DIR}/${kind}/precompiled.hpp.pch")
        file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${kind}")
        add_custom_command(OUTPUT "${${kind}_precompiled}"
                           COMMAND "${shardwise_clang}" ${clang_flags} ${${kind}_flags} -MMD -MF "${${kind}_precompiled}.d"
                                   -MT "${${kind}_precompiled}" -x c++-header
                                   "${CMAKE_CURRENT_SOURCE_DIR}/support/precompiled.hpp" -o "${${kind}_precompiled}"
                           DEPENDS support/precompiled.hpp
                           DEPFILE "${${kind}_precompiled}.d"
                           COMMENT "clang: tests/support/precompiled.hpp, ${kind}"
                           VERBATIM)
        add_custom_target(${kind}_precompiled DEPENDS "${${kind}_precompiled}")
    endforeach()
endif()

# shardwise_clang_objects(OUT plain|asan NAME UNIT...): the objects of NAME by clang++. The caller's optional_flags are those of the
# libraries that the units need.
function(shardwise_clang_objects out kind name)
    set(objects "")
    foreach(source IN LISTS ARGN)
        cmake_path(GET source STEM stem)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/${kind}/${name}/${stem}.o")
        shardwise_compile(OUT "${object}" SOURCE "${source}" COMPILER clang
                          FLAGS ${clang_flags} ${${kind}_flags} ${optional_flags} -include-pch "${${kind}_precompiled}"
                          AFTER "${${kind}_precompiled}")
        list(APPEND objects "${object}")
    endforeach()
    set(${out} "${objects}" PARENT_SCOPE)
endfunction()

# shardwise_sanitized_program(NAME [ALL] UNIT...): test_<name>_asan, built by the target asan_<name>. The caller's optional_flags and
# optional_links are those of the libraries that the units need.
function(shardwise_sanitized_program name)
    cmake_parse_arguments(arg "ALL" "" "" ${ARGN})
    set(all "")
    if(arg_ALL)
        set(all ALL)
    endif()
    shardwise_clang_objects(objects asan ${name} ${arg_UNPARSED_ARGUMENTS})
    set(program "${PROJECT_BINARY_DIR}/tests/test_${name}_asan")
    add_custom_command(OUTPUT "${program}"
                       COMMAND "${shardwise_clang}" ${shardwise_sanitize_flags} ${objects}
                               "$<TARGET_OBJECTS:doctest_main>" ${optional_links} -o "${program}"
                       DEPENDS ${objects} doctest_main "$<TARGET_OBJECTS:doctest_main>"
                       COMMENT "clang: test_${name}_asan"
                       COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(asan_${name} ${all} DEPENDS "${program}")
    add_dependencies(asan_${name} asan_precompiled)
endfunction()

# shardwise_room_program(NAME SOURCE_OR_OBJECT...): a room's program by the project's compiler. The caller's optional_flags and
# optional_links are those of the libraries that the units need.
function(shardwise_room_program name)
    shardwise_program(${name} tests ${ARGN} $<TARGET_OBJECTS:doctest_main>)
    target_include_directories(${name} PRIVATE ${shardwise_test_includes})
    target_include_directories(${name} SYSTEM PRIVATE "${shardwise_doctest_include}")
    target_compile_definitions(${name} PRIVATE ${shardwise_test_definitions})
    target_compile_options(${name} PRIVATE ${optional_flags})
    target_link_libraries(${name} PRIVATE ${optional_links})
endfunction()

# shardwise_long_room(NAME PROGRAM TARGET ARGUMENT...): a test with the label long of a program that TARGET builds for it alone.
function(shardwise_long_room name program target)
    shardwise_built_test(${name}.build ${target})
    shardwise_room_test(${name} "${program}" ${ARGN})
    set_tests_properties(${name}.build ${name} PROPERTIES LABELS long TIMEOUT 7200)
    set_tests_properties(${name}.build PROPERTIES FIXTURES_SETUP ${target})
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${target})
endfunction()

# shardwise_sanitized_room(ROOM UNITS SOURCE...): test_<room>_asan, and with the label long test_whole_<room>_asan where that leaves
# files out. UNITS are those of all sources.
function(shardwise_sanitized_room room all_units)
    set(program "${PROJECT_BINARY_DIR}/tests/test_${room}_asan")
    set(excluded --test-suite-exclude=long,models,timing,large,fibers)
    set(some ${ARGN})
    list(REMOVE_ITEM some ${long_sanitized_files})
    set(units ${all_units})
    if(NOT some STREQUAL "${ARGN}" AND NOT room IN_LIST long_sanitized_rooms)
        shardwise_batches(units some_${room} ${some})
    endif()
    if(room IN_LIST long_sanitized_rooms)
        set(some "")
    else()
        shardwise_sanitized_program(${room} ALL ${units})
        shardwise_room_test(asan.${room} "${program}" ${excluded})
    endif()
    if(some STREQUAL "${ARGN}")
        shardwise_sample(asan.${room} long.asan.${room} ${room} "${program}" ${excluded})
        return()
    endif()
    shardwise_sanitized_program(whole_${room} ${all_units})
    if(some)
        shardwise_take_samples(asan.${room})
    endif()
    shardwise_long_room(long.asan.${room} "${PROJECT_BINARY_DIR}/tests/test_whole_${room}_asan" asan_whole_${room} ${excluded})
endfunction()

# shardwise_take_samples(NAME): a test runs samples of its matrices (support/pair_sample.hpp).
function(shardwise_take_samples name)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT SHARDWISE_SAMPLES=1)
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
        shardwise_take_samples(${name})
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
    set(plain_arguments --test-suite-exclude=${plain_excludes})
    if(NOT room IN_LIST gcc_rooms AND shardwise_clang AND NOT shardwise_sanitized)
        shardwise_clang_objects(objects plain ${room} ${units})
        shardwise_room_program(test_${room} ${objects})
        shardwise_room_program(test_gcc_${room} ${units})
        target_precompile_headers(test_gcc_${room} REUSE_FROM test_precompiled)
        set_target_properties(test_gcc_${room} PROPERTIES EXCLUDE_FROM_ALL TRUE)
        shardwise_long_room(long.gcc.${room} test_gcc_${room} test_gcc_${room} ${plain_arguments})
        shardwise_take_samples(long.gcc.${room})
    else()
        shardwise_room_program(test_${room} ${units})
        target_precompile_headers(test_${room} REUSE_FROM test_precompiled)
    endif()
    if(room STREQUAL "device")
        # Ranks wait for each other in kernels that spin: beside another test they take many times as long.
        set(ranks "Models*,Peers*,DeviceCommunicator*,Sixteen ranks*")
        shardwise_room_test(device.ranks test_${room} ${plain_arguments} "--test-case=${ranks}")
        set_tests_properties(device.ranks PROPERTIES PROCESSORS 2)
        shardwise_take_samples(device.ranks)
        list(APPEND plain_arguments "--test-case-exclude=${ranks}")
    endif()
    shardwise_room_test(${room} test_${room} ${plain_arguments})
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
        set_tests_properties(cli PROPERTIES TIMEOUT 2700)
    endif()
    if(room STREQUAL "cli" AND TARGET shardwise_program)
        add_dependencies(test_cli shardwise_program)
    endif()
    if(NOT room IN_LIST unsanitized_rooms AND NOT shardwise_sanitized)
        if(shardwise_clang)
            shardwise_sanitized_room(${room} "${units}" ${sources})
        else()
            shardwise_skipped_test(asan.${room} "clang++ is not installed")
        endif()
    endif()
endforeach()
