# SPDX-License-Identifier: Apache-2.0
# Two libraries built against two versions of shardwise in one program: each keeps its own results, whether they are static
# or shared. The second version is this one as a release would leave it (scripts/set_version.py), with one function changed.
# SECOND_COMPILER builds the second library, so that this holds between compilers too.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

# write_version(FOLDER VERSION): a copy of include/ that writes sizes in other words, under VERSION unless that is empty.
function(write_version folder version)
    file(COPY "${SOURCE_DIR}/include" DESTINATION "${folder}")
    set(header "${folder}/include/shardwise/core/error.hpp")
    file(READ "${header}" text)
    string(REPLACE "\"GiB\"" "\"gibibytes\"" changed "${text}")
    if(changed STREQUAL text)
        message(FATAL_ERROR "${header} does not write \"GiB\" any more: change another function here")
    endif()
    file(WRITE "${header}" "${changed}")
    if(version)
        run("${SOURCE_DIR}/scripts/set_version.py" "${version}" --root "${folder}")
    endif()
endfunction()

# build_library(NAME INCLUDE COMPILER [FLAG...]): NAME.a and NAME.so with the function NAME_answer.
function(build_library name include compiler)
    run("${compiler}" -std=c++20 -O0 -fPIC ${ARGN} "-I${include}" "-DLIBRARY=${name}_answer" -c
        "${CMAKE_CURRENT_LIST_DIR}/versions/library.cpp" -o "${WORK}/${name}.o")
    run(ar rcs "${WORK}/${name}.a" "${WORK}/${name}.o")
    run("${compiler}" -shared "${WORK}/${name}.o" -o "${WORK}/${name}.so")
endfunction()

# expect_answers(ENDING FIRST SECOND): what the program prints with the libraries first.ENDING and second.ENDING.
function(expect_answers ending first second)
    run("${COMPILER}" "${CMAKE_CURRENT_LIST_DIR}/versions/program.cpp" "${WORK}/first.${ending}"
        "${WORK}/second.${ending}" "-Wl,-rpath,${WORK}" -o "${WORK}/program")
    run("${WORK}/program")
    if(NOT printed STREQUAL "${first}\n${second}\n")
        message(FATAL_ERROR "with .${ending} libraries: expected '${first}' and '${second}', got\n${printed}")
    endif()
endfunction()

string(REGEX MATCH "^[0-9]+" major "${VERSION}")
build_library(first "${SOURCE_DIR}/include" "${COMPILER}")

write_version("${WORK}/next" 9.9.9)
build_library(second "${WORK}/next/include" "${SECOND_COMPILER}")
expect_answers(a "${major}: 1.00 GiB" "9: 1.00 gibibytes")
expect_answers(so "${major}: 1.00 GiB" "9: 1.00 gibibytes")

# The same change under the same version, but without assertions: they never meet either.
write_version("${WORK}/same" "")
build_library(second "${WORK}/same/include" "${COMPILER}" -DNDEBUG)
expect_answers(a "${major}: 1.00 GiB" "${major}: 1.00 gibibytes")
expect_answers(so "${major}: 1.00 GiB" "${major}: 1.00 gibibytes")

# The same change under the same version: the functions meet and one library answers wrongly. So the above can fail.
build_library(second "${WORK}/same/include" "${COMPILER}")
expect_answers(a "${major}: 1.00 GiB" "${major}: 1.00 GiB")
