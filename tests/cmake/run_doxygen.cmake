# SPDX-License-Identifier: Apache-2.0
# cmake -DDOXYGEN=... -DSOURCE_DIR=... -DWORK=... -P run_doxygen.cmake: the reference, made in WORK without a warning.
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
file(READ "${SOURCE_DIR}/docs/Doxyfile" settings)
file(WRITE "${WORK}/Doxyfile" "${settings}\nOUTPUT_DIRECTORY = ${WORK}\n")
execute_process(COMMAND "${DOXYGEN}" "${WORK}/Doxyfile" WORKING_DIRECTORY "${SOURCE_DIR}"
                RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
if(NOT status EQUAL 0 OR printed MATCHES "warning:|error:")
    message(NOTICE "${printed}")
    message(FATAL_ERROR "doxygen ends with ${status}; see above")
endif()

# Without warnings, but also not without the library: a template, a function and an enumerator must be there.
function(expect_page page text)
    file(READ "${WORK}/html/${page}" html)
    string(FIND "${html}" "${text}" found)
    if(found EQUAL -1)
        message(FATAL_ERROR "${WORK}/html/${page} does not say '${text}'")
    endif()
endfunction()
expect_page(classshardwise_1_1DeviceMap.html "shardwise::DeviceMap")
expect_page(namespaceshardwise.html "estimate_memory")
expect_page(namespaceshardwise.html "a value that a caller gave is outside its range")
