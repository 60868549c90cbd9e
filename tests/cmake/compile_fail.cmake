# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=... -DCOMPILERS=... -DFLAGS=... -P compile_fail.cmake
#
# SOURCE must not compile, with any of the compilers, and each text of its leading `// expect: text` lines must stand
# in what they print. Where it mentions SHARDWISE_FIXED it must compile with that macro: it fails for this reason only.
# Lines `// without: header: text` take the only line with that text out of a header, which is compiled in a copy; with the line it
# must compile.

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

# The headers that lack a line, before all others.
get_filename_component(name "${SOURCE}" NAME_WE)
set(planted "${CMAKE_CURRENT_BINARY_DIR}/compile_fail/${name}")
file(REMOVE_RECURSE "${planted}")
set(planted_flags "")
set(rest "${text}")
while(rest MATCHES "\n// without: ([^:\n]*): ([^\n]*)\n(.*)$")
    set(header "${CMAKE_MATCH_1}")
    set(line "${CMAKE_MATCH_2}")
    set(rest "\n${CMAKE_MATCH_3}")
    set(from "${planted}/${header}")
    if(NOT EXISTS "${from}")
        set(from "${CMAKE_CURRENT_LIST_DIR}/../../include/${header}")
    endif()
    file(READ "${from}" content)
    string(FIND "${content}" "${line}" first)
    string(FIND "${content}" "${line}" last REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL last)
        refuse("${SOURCE}: not one line of ${header} has the text\n  ${line}")
    endif()
    string(SUBSTRING "${content}" 0 ${first} before)
    string(FIND "${before}" "\n" begin REVERSE)
    string(SUBSTRING "${before}" 0 ${begin} before)
    string(SUBSTRING "${content}" ${first} -1 after)
    string(FIND "${after}" "\n" end)
    string(SUBSTRING "${after}" ${end} -1 after)
    file(WRITE "${planted}/${header}" "${before}${after}")
    set(planted_flags "-I${planted}")
endwhile()

foreach(compiler IN LISTS COMPILERS)
    execute_process(COMMAND "${compiler}" ${planted_flags} ${FLAGS} -fsyntax-only "${SOURCE}"
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

if(text MATCHES "SHARDWISE_FIXED" OR planted_flags)
    list(GET COMPILERS 0 compiler)
    execute_process(COMMAND "${compiler}" ${FLAGS} -DSHARDWISE_FIXED -fsyntax-only "${SOURCE}"
                    RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
    if(NOT status EQUAL 0)
        refuse("${compiler}: ${SOURCE} must compile with -DSHARDWISE_FIXED, but\n${printed}")
    endif()
endif()
