# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/<name>_fuzzer.cpp, by clang++ with libFuzzer, ASan and UBSan; seeds in tests/fuzz/corpus/<name>/, words in
# tests/fuzz/<name>.dict. Five seconds each in the suite; SHARDWISE_FUZZ_SECONDS gives them longer.
set(SHARDWISE_FUZZ_SECONDS 5 CACHE STRING "How long each fuzzer runs in the suite")

file(GLOB fuzzers CONFIGURE_DEPENDS fuzz/*_fuzzer.cpp)
if(NOT fuzzers)
    return()
endif()

set(fuzz_flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -g1 -O0)
set(fuzz_runtime FALSE)
if(shardwise_clang)
    set(probe "${CMAKE_CURRENT_BINARY_DIR}/fuzz/probe")
    file(WRITE "${probe}.cpp" "extern \"C\" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }\n")
    execute_process(COMMAND "${shardwise_clang}" ${fuzz_flags} "${probe}.cpp" -o "${probe}"
                    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
        set(fuzz_runtime TRUE)
    endif()
endif()

# All in one program, whose readers are compiled once: SHARDWISE_FUZZER names the one that runs.
set(names ${fuzzers})
list(TRANSFORM names REPLACE ".*/(.*)_fuzzer[.]cpp$" "\\1")
if(fuzz_runtime)
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/fuzz/fuzzers.cpp")
    set(object "${CMAKE_CURRENT_BINARY_DIR}/fuzz/fuzzers.o")
    set(program "${PROJECT_BINARY_DIR}/tests/fuzz_readers")
    list(JOIN fuzzers "," joined)
    list(TRANSFORM names REPLACE "(.+)" "X(\\1)" OUTPUT_VARIABLE listed)
    list(JOIN listed " " listed)
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/fuzz/fuzzers.inc" CONTENT "#define SHARDWISE_FUZZERS(X) ${listed}\n" @ONLY)
    add_custom_command(OUTPUT "${unit}"
                       COMMAND "${CMAKE_COMMAND}" "-DSOURCES=${joined}" "-DBATCH=${unit}" "-DENTRY=LLVMFuzzerTestOneInput"
                               "-DLAST=${CMAKE_CURRENT_SOURCE_DIR}/fuzz/choose_fuzzer.inc" -P "${make_batch}"
                       DEPENDS ${fuzzers} fuzz/choose_fuzzer.inc "${make_batch}"
                       COMMENT "fuzz: all fuzzers"
                       VERBATIM)
    shardwise_compile(OUT "${object}" SOURCE "${unit}" COMPILER clang
                      FLAGS -std=c++20 ${fuzz_flags} ${shardwise_warnings} "-I${PROJECT_SOURCE_DIR}/include"
                            "-I${CMAKE_CURRENT_SOURCE_DIR}/support" "-I${CMAKE_CURRENT_BINARY_DIR}/fuzz")
    add_custom_command(OUTPUT "${program}" COMMAND "${shardwise_clang}" ${fuzz_flags} "${object}" -o "${program}"
                       DEPENDS "${object}" COMMENT "clang: fuzz_readers" VERBATIM)
    add_custom_target(fuzzers ALL DEPENDS "${program}")
endif()

foreach(name IN LISTS names)
    if(NOT fuzz_runtime)
        shardwise_skipped_test(fuzz.${name} "clang++ with libFuzzer is not installed (Debian: clang libclang-rt-14-dev)")
        continue()
    endif()
    add_test(NAME fuzz.${name}
             COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=${program}" "-DSEEDS=${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name}"
                     "-DDICTIONARY=${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${name}.dict"
                     "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/fuzz/${name}" "-DSECONDS=${SHARDWISE_FUZZ_SECONDS}"
                     -P "${CMAKE_CURRENT_LIST_DIR}/run_fuzzer.cmake")
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz ENVIRONMENT "SHARDWISE_FUZZER=${name}")
endforeach()
