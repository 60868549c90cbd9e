# SPDX-License-Identifier: Apache-2.0
# `conan create` without any remote, in a Conan home of its own, by the first compiler; then `conan test` by the others,
# for which the same package must serve (a header library has one binary). COMPILERS: gcc=PATH,clang=PATH; CONAN: the
# program.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

set(ENV{CONAN_HOME} "${WORK}/home")
set(how --no-remote -c tools.cmake.cmaketoolchain:generator=Ninja
        -c "tools.cmake.cmake_layout:test_folder=${WORK}/test_package")

string(REPLACE "," ";" COMPILERS "${COMPILERS}")
set(step create "${SOURCE_DIR}")
foreach(compiler IN LISTS COMPILERS)
    string(REGEX MATCH "^([^=]+)=(.+)$" matched "${compiler}")
    set(name "${CMAKE_MATCH_1}")
    set(path "${CMAKE_MATCH_2}")
    # The profile is Conan's own guess, as most users have it; only the compiler is given.
    run("${CMAKE_COMMAND}" -E env "CXX=${path}" "${CONAN}" profile detect --name ${name})
    run("${CONAN}" ${step} -pr:a ${name} ${how} -c "tools.build:compiler_executables={'cpp': '${path}'}")
    string(FIND "${printed}" "${expected}" answered)
    if(answered EQUAL -1)
        message(NOTICE "${printed}")
        message(FATAL_ERROR "the consumer built by ${name} does not say '${expected}'")
    endif()
    set(step test "${SOURCE_DIR}/test_package" "shardwise/${VERSION}")
endforeach()
