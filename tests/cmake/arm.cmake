# SPDX-License-Identifier: Apache-2.0
# The levels of ARM's processors: test files of some rooms, compiled by Debian's g++ for AArch64 and run by qemu's emulator of user
# programs. qemu says nothing of speed.
#
# ctest entries:
#   arm.<room>       a sample of the room's files, at the levels portable, neon and neon_i8mm
#   arm.plain        levels, and products by activations of eight bits, on a processor without FEAT_I8MM
#   long.arm.<room>  all files of the room that need no library, with the label long
find_program(shardwise_arm NAMES aarch64-linux-gnu-g++)
find_program(shardwise_qemu NAMES qemu-aarch64 qemu-aarch64-static)

# Those of which the sample has files, and those that are tested whole.
set(arm_sampled_rooms core quant backend kernels comm calibrate train)
set(arm_rooms core quant backend kernels)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    # The rooms' own entries run them.
    return()
endif()
set(arm_missing "")
if(NOT shardwise_arm)
    set(arm_missing "aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu) is not installed")
elseif(NOT shardwise_qemu)
    set(arm_missing "qemu-aarch64 (Debian: qemu-user) is not installed")
endif()
if(arm_missing)
    foreach(room IN LISTS arm_sampled_rooms ITEMS plain)
        shardwise_skipped_test(arm.${room} "${arm_missing}")
    endforeach()
    return()
endif()
if(shardwise_sanitized)
    return()
endif()

# doctest alone: the folder that it lies in may hold the headers of this machine's libraries.
set(arm_folder "${CMAKE_CURRENT_BINARY_DIR}/arm")
file(MAKE_DIRECTORY "${arm_folder}/include")
file(CREATE_LINK "${shardwise_doctest_include}/doctest" "${arm_folder}/include/doctest" SYMBOLIC)
# -O1: qemu runs what -O0 makes in several times as long.
set(arm_flags -std=c++20 -O1 ${shardwise_warnings} -isystem "${arm_folder}/include")
foreach(folder IN LISTS shardwise_test_includes)
    list(APPEND arm_flags "-I${folder}")
endforeach()
foreach(definition IN LISTS shardwise_test_definitions)
    list(APPEND arm_flags "-D${definition}")
endforeach()

# shardwise_arm_program(NAME [ALL] SOURCE...): test_<name>, for AArch64; static, so that it needs no libraries beside it.
function(shardwise_arm_program name)
    cmake_parse_arguments(arg "ALL" "" "" ${ARGN})
    set(objects "")
    foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
        # Files of two rooms may have one name.
        cmake_path(GET source STEM stem)
        cmake_path(GET source PARENT_PATH folder)
        cmake_path(GET folder FILENAME room)
        set(object "${arm_folder}/${name}/${room}/${stem}.o")
        shardwise_compile(OUT "${object}" SOURCE "${source}" COMPILER arm FLAGS ${arm_flags})
        list(APPEND objects "${object}")
    endforeach()
    set(program "${PROJECT_BINARY_DIR}/tests/test_${name}")
    add_custom_command(OUTPUT "${program}" COMMAND "${shardwise_arm}" -static -pthread ${objects} -o "${program}"
                       DEPENDS ${objects} COMMENT "arm: test_${name}" VERBATIM)
    if(arg_ALL)
        add_custom_target(${name} ALL DEPENDS "${program}")
    else()
        add_custom_target(${name} DEPENDS "${program}")
    endif()
endfunction()

# What asks for the time of an operation, or for all that a program that ends has printed, is not for an emulator.
set(arm_excluded "--test-case-exclude=TraceRing: *,SHARDWISE_ASSERT: *,*end the program,*ends the program")

# shardwise_arm_test(NAME PROGRAM CPU FILES): the cases of some files.
function(shardwise_arm_test name program cpu files)
    add_test(NAME ${name}
             COMMAND "${shardwise_qemu}" -cpu ${cpu} "${PROJECT_BINARY_DIR}/tests/test_${program}"
                     "--source-file=${files}" --test-suite-exclude=long,models,timing "${arm_excluded}"
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800)
endfunction()

set(arm_main "${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp")
set(arm_sample core/unfused quant/decode_legacy quant/decode_k quant/decode_microscaling quant/encode_ggml backend/isa
               backend/quantised backend/rounded backend/gemm kernels/portable_bits kernels/rows kernels/attention_limits
               kernels/quantize comm/add_floats calibrate/read_lines train/adamw)
list(TRANSFORM arm_sample PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
list(TRANSFORM arm_sample APPEND "_test.cpp")
shardwise_batches(arm_units arm ${arm_sample})
shardwise_arm_program(arm ALL "${arm_main}" ${arm_units})
foreach(room IN LISTS arm_sampled_rooms)
    shardwise_arm_test(arm.${room} arm max "*/tests/${room}/*")
endforeach()
shardwise_arm_test(arm.plain arm cortex-a72 "*/isa_test.cpp,*/rounded_test.cpp")

set(arm_units "")
foreach(room IN LISTS arm_rooms)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room}/*_test.cpp)
    set(own "")
    foreach(source IN LISTS sources)
        # What needs a library would need it for AArch64.
        file(STRINGS "${source}" foreign REGEX "#include <(Eigen|nlohmann|oneapi|dlpack|shardwise/backend/(eigen|dlpack|host/onednn))")
        if(NOT foreign)
            list(APPEND own "${source}")
        endif()
    endforeach()
    shardwise_batches(units arm_${room} ${own})
    list(APPEND arm_units ${units})
endforeach()
shardwise_arm_program(arm_whole "${arm_main}" ${arm_units})
shardwise_built_test(long.arm.build arm_whole)
set_tests_properties(long.arm.build PROPERTIES LABELS long FIXTURES_SETUP arm_whole TIMEOUT 3600)
foreach(room IN LISTS arm_rooms)
    shardwise_arm_test(long.arm.${room} arm_whole max "*/tests/${room}/*")
    set_tests_properties(long.arm.${room} PROPERTIES LABELS long FIXTURES_REQUIRED arm_whole TIMEOUT 7200)
endforeach()
