# SPDX-License-Identifier: Apache-2.0
# The reference by Doxygen: every warning is an error.
find_program(shardwise_doxygen doxygen)
if(shardwise_doxygen)
    add_test(NAME reference
             COMMAND "${CMAKE_COMMAND}" "-DDOXYGEN=${shardwise_doxygen}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}"
                     "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/reference" -P "${CMAKE_CURRENT_LIST_DIR}/run_doxygen.cmake")
else()
    shardwise_skipped_test(reference "doxygen is not installed (Debian: doxygen)")
endif()

# README.md's table of what works, and the tests that it names.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
    add_test(NAME works COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/works_table.py" --check
                                "${PROJECT_BINARY_DIR}")
else()
    shardwise_skipped_test(works "Python 3 is not installed (Debian: python3)")
endif()
