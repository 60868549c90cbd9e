# SPDX-License-Identifier: Apache-2.0
# A user's program compiles without a warning: example 06, which includes most of the library, with -I include and flags that
# users have, none of ours; by g++, and by the newest clang with its own standard library. g++ warns of what its optimiser finds too:
# scripts/test_fresh.sh builds the program with it, and the label `long` has every compiler at every level of optimisation, with
# assertions and without.

find_program(shardwise_clang_16 clang++-16)
find_program(shardwise_clang_19 clang++-19)
set(user_program "${PROJECT_SOURCE_DIR}/examples/06_run/main.cpp")

# shardwise_warning_test(NAME COMPILER PACKAGE FLAG...): fails where the compiler says anything; skipped where it is absent.
function(shardwise_warning_test name compiler package)
    if(NOT compiler)
        shardwise_skipped_test(${name} "${package} is not installed")
    else()
        add_test(NAME ${name} COMMAND "${compiler}" -std=c++20 -Wall -Wextra -Werror ${ARGN} -I "${PROJECT_SOURCE_DIR}/include"
                                      -c "${user_program}" -o "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
        set_tests_properties(${name} PROPERTIES TIMEOUT 1800)
    endif()
    if(name MATCHES "^long")
        set_tests_properties(${name} PROPERTIES LABELS long)
    endif()
endfunction()

set(libcxx_package "libc++-19-dev with clang-19")
set(libcxx_compiler "")
if(shardwise_clang_19)
    execute_process(COMMAND "${shardwise_clang_19}" -std=c++20 -stdlib=libc++ -fsyntax-only -include version -x c++ /dev/null
                    RESULT_VARIABLE no_libcxx OUTPUT_QUIET ERROR_QUIET)
    if(no_libcxx EQUAL 0)
        set(libcxx_compiler "${shardwise_clang_19}")
    endif()
endif()

shardwise_warning_test(warnings.gcc "${shardwise_gcc}" g++ -fsyntax-only)
shardwise_warning_test(warnings.libcxx "${libcxx_compiler}" "${libcxx_package}" -stdlib=libc++ -fsyntax-only)

foreach(level O1 O2 O3)
    foreach(assertions "" -DNDEBUG)
        string(REPLACE "-D" "." suffix "${level}${assertions}")
        set(flags -${level} ${assertions})
        shardwise_warning_test(long.warnings.gcc.${suffix} "${shardwise_gcc}" g++ ${flags})
        shardwise_warning_test(long.warnings.clang.${suffix} "${shardwise_clang}" clang ${flags})
        shardwise_warning_test(long.warnings.clang_16.${suffix} "${shardwise_clang_16}" clang-16 ${flags})
        shardwise_warning_test(long.warnings.clang_19.${suffix} "${shardwise_clang_19}" clang-19 ${flags})
        shardwise_warning_test(long.warnings.libcxx.${suffix} "${libcxx_compiler}" "${libcxx_package}" -stdlib=libc++
                               ${flags})
    endforeach()
endforeach()
