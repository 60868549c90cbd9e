# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=... -DCOMPILERS=... -DFLAGS=... -P compile_fail.cmake
#
# SOURCE must not compile, with any of the compilers, and each text of its leading `// expect: text` lines must stand
# in what they print. Where it mentions SHARDWISE_FIXED it must compile with that macro: it fails for this reason only.

# message(FATAL_ERROR) wraps what it prints; compilers' output is better left as it is.
function(refuse text)
    message(NOTICE "${text}")
    message(FATAL_ERROR "see above")
endfunction()

file(STRINGS "${SOURCE}" first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: ")
    refuse("${SOURCE}: the first line must be '// expect: text'")
endif()
file(READ "${SOURCE}" text)

foreach(compiler IN LISTS COMPILERS)
    execute_process(COMMAND "${compiler}" ${FLAGS} -fsyntax-only "${SOURCE}"
                    RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
    if(status EQUAL 0)
        refuse("${compiler}: ${SOURCE} compiles, but must not")
    endif()
    set(rest "${text}")
    while(rest MATCHES "^// expect: ([^\n]*)\n")
        set(expected "${CMAKE_MATCH_1}")
        string(FIND "${printed}" "${expected}" found)
        if(found EQUAL -1)
            refuse("${compiler}: ${SOURCE} fails without the text\n  ${expected}\nbut with\n${printed}")
        endif()
        string(REGEX REPLACE "^[^\n]*\n" "" rest "${rest}")
    endwhile()
endforeach()

if(text MATCHES "SHARDWISE_FIXED")
    list(GET COMPILERS 0 compiler)
    execute_process(COMMAND "${compiler}" ${FLAGS} -DSHARDWISE_FIXED -fsyntax-only "${SOURCE}"
                    RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
    if(NOT status EQUAL 0)
        refuse("${compiler}: ${SOURCE} must compile with -DSHARDWISE_FIXED, but\n${printed}")
    endif()
endif()
