# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=... -DSEEDS=... -DDICTIONARY=... -DWORK=... -DSECONDS=... -P run_fuzzer.cmake
#
# New inputs go to a fresh folder, so that every run starts from the committed seeds alone; a crash stays in WORK.
file(REMOVE_RECURSE "${WORK}/found")
file(MAKE_DIRECTORY "${WORK}/found")
set(arguments -seed=1 -max_total_time=${SECONDS} -max_len=65536 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1
              "-artifact_prefix=${WORK}/")
if(EXISTS "${DICTIONARY}")
    list(APPEND arguments "-dict=${DICTIONARY}")
endif()
list(APPEND arguments "${WORK}/found")
if(EXISTS "${SEEDS}")
    list(APPEND arguments "${SEEDS}")
endif()
execute_process(COMMAND "${PROGRAM}" ${arguments} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "the fuzzer ended with ${status}; the input is in ${WORK}")
endif()
