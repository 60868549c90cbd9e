# SPDX-License-Identifier: Apache-2.0
# cmake -DNM=... -DOBJECT=... -P only_inline.cmake: fails where an object defines a function or a variable that a second unit would define
# again. Of a unit that only includes headers each definition is inline, or local.
execute_process(COMMAND "${NM}" --extern-only --defined-only --demangle "${OBJECT}" RESULT_VARIABLE status OUTPUT_VARIABLE symbols
                ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "${NM} does not read ${OBJECT}: ${errors}")
endif()
if(symbols STREQUAL "")
    message(FATAL_ERROR "${OBJECT} defines nothing")
endif()
# V, W, u: those of which a program keeps one of many.
string(REGEX MATCHALL "[0-9a-f]+ [ABCDGRST] [^\n]+" defined "${symbols}")
if(defined)
    list(JOIN defined "\n    " defined)
    message(FATAL_ERROR "a second unit with these headers would define again:\n    ${defined}")
endif()
