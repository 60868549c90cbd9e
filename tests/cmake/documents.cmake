# SPDX-License-Identifier: Apache-2.0
# Examples and documents say what they print; here they are held to it.
get_property(examples GLOBAL PROPERTY SHARDWISE_EXAMPLES_BUILT)
foreach(example IN LISTS examples)
    add_test(NAME example.${example}
             COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:example_${example}>"
                     "-DEXPECTED=${PROJECT_SOURCE_DIR}/examples/${example}/expected.txt"
                     "-DPRINTED=${CMAKE_CURRENT_BINARY_DIR}/example_${example}.txt"
                     -P "${CMAKE_CURRENT_LIST_DIR}/compare_output.cmake")
    set_tests_properties(example.${example} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED:")
endforeach()

shardwise_program(check_docs tests house/check_docs.cpp)
set(snippet_flags ${shardwise_strict_flags})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND snippet_flags ${shardwise_gcc_speed})
endif()
# In one unit, and where the label is long each program alone.
foreach(name documents long.documents)
    set(alone "")
    if(name STREQUAL "long.documents")
        set(alone --alone)
    endif()
    add_test(NAME ${name}
             COMMAND check_docs ${alone} "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_BINARY_DIR}/${name}" "${PROJECT_BINARY_DIR}/bin"
                     "${CMAKE_CXX_COMPILER}" ${snippet_flags})
endforeach()
set_tests_properties(long.documents PROPERTIES LABELS long)

# The check must refuse what is wrong, and only that: see the planted document.
add_test(NAME house.documents
         COMMAND check_docs "${CMAKE_CURRENT_SOURCE_DIR}/house/planted" "${CMAKE_CURRENT_BINARY_DIR}/planted_documents"
                 "${PROJECT_BINARY_DIR}/bin" "${CMAKE_CXX_COMPILER}" ${snippet_flags})
set_tests_properties(house.documents PROPERTIES PASS_REGULAR_EXPRESSION
    "wrong_output prints something else.*does_not_compile does not compile.*fails fails when run.*5 tested blocks in 1 documents, 4 problems")
