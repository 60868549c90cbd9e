# SPDX-License-Identifier: Apache-2.0
# What the packaging tests share. Each is called as
#   cmake -DSOURCE_DIR=... -DPREFIX=... -DWORK=... -DVERSION=... -DNAME=gcc|clang -DCOMPILER=... [-DWAY=...] -P <test>.cmake
# SOURCE_DIR: this checkout; PREFIX: shardwise installed; WORK: a folder of the test's own.
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

# What a user's shell may hold must not decide a test.
foreach(variable CPATH CPLUS_INCLUDE_PATH CMAKE_PREFIX_PATH PKG_CONFIG_PATH CXXFLAGS CUDACXX CUDA_PATH CUDA_HOME HIP_PATH
                 ROCM_PATH MPI_HOME)
    unset(ENV{${variable}})
endforeach()

set(expected "shardwise ${VERSION}: fits on 36.80 GiB\n")

# run(COMMAND ...): what it prints, on both streams, in `printed`; a failure ends the test.
function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " line)
        message(NOTICE "${output}")
        message(FATAL_ERROR "${status} from ${line}")
    endif()
    set(printed "${output}" PARENT_SCOPE)
endfunction()

# expect_answer(PROGRAM): the consumer's one line, with this version.
function(expect_answer program)
    run("${program}")
    if(NOT printed STREQUAL expected)
        message(FATAL_ERROR "expected '${expected}', but ${program} prints '${printed}'")
    endif()
endfunction()

# compile_consumer(FLAG...): the ten lines, by the compiler alone.
function(compile_consumer)
    run("${COMPILER}" -std=c++20 ${ARGN} "${SOURCE_DIR}/tests/consumer/main.cpp" -o "${WORK}/consumer")
    expect_answer("${WORK}/consumer")
endfunction()

# build_consumer(ARGUMENT...): the ten lines as a CMake project that is configured with the arguments.
function(build_consumer)
    run("${CMAKE_COMMAND}" -G Ninja -S "${SOURCE_DIR}/tests/consumer" -B "${WORK}/build"
        "-DCMAKE_CXX_COMPILER=${COMPILER}" ${ARGN})
    run("${CMAKE_COMMAND}" --build "${WORK}/build")
    expect_answer("${WORK}/build/consumer")
endfunction()

# expect_refusal(TEXT COMMAND...): the command fails and says TEXT, which may be wrapped over lines.
function(expect_refusal text)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    string(REGEX REPLACE "[ \n]+" " " flat "${output}")
    string(FIND "${flat}" "${text}" found)
    if(status EQUAL 0 OR found EQUAL -1)
        message(NOTICE "${output}")
        message(FATAL_ERROR "expected a failure that says '${text}', got status ${status} and the above")
    endif()
endfunction()

# blind_headers(HEADER...): a folder WORK/blind in which each of them does not compile.
function(blind_headers)
    foreach(header IN LISTS ARGN)
        file(WRITE "${WORK}/blind/${header}" "#error \"must not be included: <${header}>\"\n")
    endforeach()
endfunction()
