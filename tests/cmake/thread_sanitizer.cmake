# SPDX-License-Identifier: Apache-2.0
# tsan.comm: what threads share (the communicators, the thread pool, streams) again under ThreadSanitizer, by clang++.
set(tsan_sources comm/threads_test.cpp comm/collectives_test.cpp comm/shared_memory_test.cpp backend/host_test.cpp
                 backend/stream_test.cpp)

if(shardwise_sanitized)
    return()
endif()
if(NOT shardwise_clang)
    shardwise_skipped_test(tsan.comm "clang++ is not installed")
    return()
endif()

# Its runtime needs an address space that not every kernel gives.
set(tsan_folder "${CMAKE_CURRENT_BINARY_DIR}/tsan")
file(WRITE "${tsan_folder}/probe.cpp" "int main() {}\n")
execute_process(COMMAND "${shardwise_clang}" -fsanitize=thread "${tsan_folder}/probe.cpp" -o "${tsan_folder}/probe"
                RESULT_VARIABLE tsan_failure OUTPUT_QUIET ERROR_QUIET)
if(NOT tsan_failure)
    execute_process(COMMAND "${tsan_folder}/probe" RESULT_VARIABLE tsan_failure OUTPUT_QUIET ERROR_QUIET)
endif()
if(tsan_failure)
    shardwise_absent_test(tsan.comm "no program under ThreadSanitizer starts here")
    return()
endif()

set(tsan_flags ${clang_flags})
list(REMOVE_ITEM tsan_flags -O0)
list(PREPEND tsan_flags -O1 -g1 -fsanitize=thread -fno-omit-frame-pointer)
set(objects "")
foreach(source IN LISTS tsan_sources)
    cmake_path(GET source STEM name)
    set(object "${tsan_folder}/${name}.o")
    shardwise_compile(OUT "${object}" SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/${source}" COMPILER clang FLAGS ${tsan_flags}
                      NOTE "tests/${source} under ThreadSanitizer")
    list(APPEND objects "${object}")
endforeach()
set(program "${PROJECT_BINARY_DIR}/tests/test_comm_tsan")
add_custom_command(OUTPUT "${program}"
                   COMMAND "${shardwise_clang}" -fsanitize=thread ${objects} "$<TARGET_OBJECTS:doctest_main>" -o "${program}"
                   DEPENDS ${objects} doctest_main "$<TARGET_OBJECTS:doctest_main>"
                   COMMENT "clang: test_comm_tsan"
                   COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(tsan_comm ALL DEPENDS "${program}")
shardwise_room_test(tsan.comm "${program}" --test-suite-exclude=long,models,timing,large,fibers)
