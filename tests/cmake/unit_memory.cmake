# SPDX-License-Identifier: Apache-2.0
# unit_memory: what g++ takes of memory for the library's largest units, compiled again, against tests/house/unit_memory.txt. Its limits
# are those of the preset `dev`: without optimisation and sanitizers.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT Python3_FOUND)
    shardwise_skipped_test(unit_memory "Python 3 is not installed (Debian: python3)")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Debug" AND CMAKE_EXPORT_COMPILE_COMMANDS
       AND NOT shardwise_sanitized)
    add_test(NAME unit_memory
             COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/unit_memory.py" "${PROJECT_BINARY_DIR}"
                     "${PROJECT_SOURCE_DIR}/tests/house/unit_memory.txt" sample)
    set_tests_properties(unit_memory PROPERTIES TIMEOUT 1800)
    add_test(NAME long.unit_memory
             COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/unit_memory.py" "${PROJECT_BINARY_DIR}"
                     "${PROJECT_SOURCE_DIR}/tests/house/unit_memory.txt" all)
    set_tests_properties(long.unit_memory PROPERTIES LABELS long TIMEOUT 2400)
endif()
