# SPDX-License-Identifier: Apache-2.0
# Device code as the vendors' compilers see it: all kernels compiled by nvcc (sm_80) and hipcc (gfx90a), linked to the
# cases of tests/device compiled by the host's compiler, and run where there is a device. The room `device` runs the same cases
# on a fake vendor, everywhere.

set(device_cases "${CMAKE_CURRENT_SOURCE_DIR}/device/cases_test.cpp")

option(SHARDWISE_TEST_ON_DEVICES "This machine has a device: compile and run all cases on it" OFF)

# shardwise_absent_test(NAME REASON): a test that only some machines can have; unlike shardwise_skipped_test no failure in CI.
function(shardwise_absent_test name reason)
    add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" -E echo "SKIPPED: ${reason}")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED:")
endfunction()

# shardwise_device_cases(TARGET DEFINITION...): the cases as objects of their own, which do not wait for the kernels.
function(shardwise_device_cases target)
    add_library(${target} OBJECT ${device_cases})
    target_include_directories(${target} PRIVATE ${shardwise_test_includes})
    target_include_directories(${target} SYSTEM PRIVATE "${shardwise_doctest_include}")
    target_compile_definitions(${target} PRIVATE ${shardwise_test_definitions} ${ARGN})
    target_compile_options(${target} PRIVATE ${shardwise_warnings})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(${target} PRIVATE ${shardwise_gcc_speed})
    endif()
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()

# shardwise_device_program(NAME DEFINITION...): test_device_<name> from the cases, device_cases_<name>; what it links is the caller's.
function(shardwise_device_program name)
    shardwise_device_cases(device_cases_${name} ${ARGN})
    add_executable(test_device_${name} $<TARGET_OBJECTS:device_cases_${name}> $<TARGET_OBJECTS:doctest_main>)
    set_target_properties(test_device_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
                                                         LINKER_LANGUAGE CXX)
    set_target_properties(test_device_${name} PROPERTIES CXX_EXTENSIONS OFF)
    add_test(NAME device.${name} COMMAND test_device_${name} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(device.${name} PROPERTIES TIMEOUT 300)
endfunction()

# Kernels on fake devices whose warps are as wide as vendors' are, where the room's are of 16: in the suite a part of the cases on warps of
# 64, and all of both widths where the label is long.
foreach(width 32 64)
    if(shardwise_sanitized)
        break()
    endif()
    set(program test_device_warps${width})
    shardwise_program(${program} tests "${CMAKE_CURRENT_SOURCE_DIR}/device/warp_cases.cpp"
                      "${CMAKE_CURRENT_SOURCE_DIR}/device/fake_kernels_test.cpp" $<TARGET_OBJECTS:doctest_main>)
    target_include_directories(${program} PRIVATE ${shardwise_test_includes})
    target_include_directories(${program} SYSTEM PRIVATE "${shardwise_doctest_include}")
    target_compile_definitions(${program} PRIVATE ${shardwise_test_definitions} SHARDWISE_TEST_WARPS=${width})
    if(width EQUAL 64)
        shardwise_room_test(device.warps${width} ${program} --test-suite-exclude=long,models
                            "--source-file-exclude=*/half_product_cases*,*/sum_cases*")
        shardwise_take_samples(device.warps${width})
    else()
        set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    endif()
    shardwise_long_room(long.device.warps${width} ${program} ${program} --test-suite-exclude=models)
endforeach()

foreach(vendor cuda hip)
    shardwise_add_device(${vendor} missing)
    if(NOT missing AND NOT shardwise_${vendor}_compiler)
        # With SHARDWISE_CUDA_JIT or SHARDWISE_HIP_JIT: jit.cmake has what runs without it.
        set(missing "${vendor}'s compiler")
    endif()
    if(missing)
        if(vendor STREQUAL "cuda")
            shardwise_absent_test(device.cuda "${missing} is not installed")
        else()
            shardwise_skipped_test(device.hip "${missing} is not installed")
        endif()
        continue()
    endif()
    if(shardwise_sanitized)
        continue()
    endif()
    # Without a device the suite compiles some of the cases, and all where the label is long. device_check.sh has a build of its own.
    set(some SHARDWISE_TEST_SOME_CASES=1)
    if(SHARDWISE_TEST_ON_DEVICES)
        set(some "")
    endif()
    shardwise_device_program(${vendor} ${some})
    shardwise_device_cases(all_device_cases_${vendor})
    set_target_properties(all_device_cases_${vendor} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    shardwise_built_test(long.device.cases.${vendor} all_device_cases_${vendor})
    set_tests_properties(long.device.cases.${vendor} PROPERTIES LABELS long TIMEOUT 1800)
    target_link_libraries(device_cases_${vendor} PRIVATE shardwise::${vendor})
    target_link_libraries(all_device_cases_${vendor} PRIVATE shardwise::${vendor})
    target_link_libraries(test_device_${vendor} PRIVATE shardwise::${vendor})
    # It warns of what only looks like a module's directive.
    set(quiet $<$<STREQUAL:${vendor},cuda>:-diag-suppress=3189>)
    shardwise_assertion_flags(assertions device_cases_${vendor})
    # -O1: for what the suite checks, ptxas at -O3 costs twice the time. nvcc has a compilation that is five times as fast, for code that
    # is linked here and runs nowhere; at -O0 hipcc's kernels need more memory for their variables than a device has.
    set(level -O1)
    if(vendor STREQUAL "cuda" AND NOT SHARDWISE_TEST_ON_DEVICES)
        execute_process(COMMAND "${shardwise_cuda_compiler}" --help OUTPUT_VARIABLE help ERROR_QUIET)
        if(help MATCHES "--Ofast-compile")
            set(level -O0 -Ofc=max)
        endif()
    endif()
    set(flags ${level} "-I${CMAKE_CURRENT_SOURCE_DIR}/support" ${quiet} ${assertions})
    # hipcc, without such a compilation, makes some of the kernels, and all where the label is long.
    set(list "")
    if(vendor STREQUAL "hip" AND NOT SHARDWISE_TEST_ON_DEVICES)
        shardwise_kernel_list(list bf16 q4_0 q5_k elements:bf16 heads:64)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/all-kernels-hip.o")
        shardwise_compile_kernels(hip "${object}" "${CMAKE_CURRENT_SOURCE_DIR}/device/kernels.cu" ${flags})
        add_custom_target(all_kernels_hip DEPENDS "${object}")
        shardwise_built_test(long.device.kernels.hip all_kernels_hip)
        set_tests_properties(long.device.kernels.hip PROPERTIES LABELS long TIMEOUT 1800)
    endif()
    list(APPEND flags ${list})
    set(sources "${CMAKE_CURRENT_SOURCE_DIR}/device/kernels.cu" "${CMAKE_CURRENT_SOURCE_DIR}/device/host_code.cu")
    if(vendor STREQUAL "cuda")
        # File by file, side by side. hipcc takes instantiate.cu whole.
        list(APPEND flags -DSHARDWISE_TEST_KERNELS_ELSEWHERE)
        foreach(family IN LISTS shardwise_kernel_families)
            list(APPEND sources "${PROJECT_SOURCE_DIR}/include/shardwise/kernels/instantiate/${family}.cu")
        endforeach()
        # The first architecture alone, and its PTX for devices of others.
        set(all_architectures ${SHARDWISE_CUDA_ARCHITECTURES})
        list(GET all_architectures 0 first)
        set(SHARDWISE_CUDA_ARCHITECTURES ${first})
    endif()
    foreach(source IN LISTS sources)
        cmake_path(GET source STEM name)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/device-${vendor}-${name}.o")
        shardwise_compile_kernels(${vendor} "${object}" "${source}" ${flags})
        target_sources(test_device_${vendor} PRIVATE "${object}")
        set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    endforeach()
    if(vendor STREQUAL "cuda")
        set(SHARDWISE_CUDA_ARCHITECTURES ${all_architectures})
    endif()
    # Without a device every case says so.
    set_tests_properties(device.${vendor} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: no device for ${vendor}")
    # What needs no device fails where it is wrong: ctest calls a whole entry skipped that says so, whatever else failed in it.
    add_test(NAME device.${vendor}.host_code COMMAND test_device_${vendor} "--test-case=Device compilers:*"
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(device.${vendor}.host_code PROPERTIES TIMEOUT 300)
endforeach()

# scripts/device_check.sh: with stand-ins for its programs in the suite; whole on the fake vendor, which it builds, where the label is long.
add_test(NAME device.check COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/device/device_check_test.sh")
set_tests_properties(device.check PROPERTIES TIMEOUT 120)
add_test(NAME long.device.check
         COMMAND bash "${PROJECT_SOURCE_DIR}/scripts/device_check.sh" --fake --limit 1800 --build "${CMAKE_CURRENT_BINARY_DIR}/device-check"
                 --out "${CMAKE_CURRENT_BINARY_DIR}/device-check-fake")
set_tests_properties(long.device.check PROPERTIES LABELS long PROCESSORS 2 TIMEOUT 2400)

# What the compilers make of each kernel (registers, stack, doubles, the width of loads), held to tests/device/limits.txt.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
    add_test(NAME device.code.bounds COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/device/device_code_bounds_test.py")
endif()
foreach(vendor cuda hip)
    if(NOT TARGET shardwise::${vendor} OR NOT shardwise_${vendor}_compiler OR NOT Python3_FOUND)
        shardwise_absent_test(device.code.${vendor} "${vendor}'s compiler or Python 3 is not installed")
        continue()
    endif()
    if(shardwise_sanitized)
        continue()
    endif()
    # CI has both vendors' tools; elsewhere cuobjdump and nvdisasm may be missing beside nvcc, which the line says.
    set(require "")
    if(vendor STREQUAL "hip" OR "$ENV{CI}" STREQUAL "true")
        set(require --require)
    endif()
    set(check "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/check_device_code.py" --vendor ${vendor} ${require}
              --work "${CMAKE_CURRENT_BINARY_DIR}/device-code")
    # A part of them in the suite, all where the label is long. The program above has sm_80.
    set(part --families collectives)
    if(vendor STREQUAL "cuda")
        set(part --architectures sm_90 --families collectives,rows)
    endif()
    add_test(NAME device.code.${vendor} COMMAND ${check} ${part} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    add_test(NAME long.device.code.${vendor} COMMAND ${check} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set(tests device.code.${vendor} long.device.code.${vendor})
    set_tests_properties(${tests} PROPERTIES TIMEOUT 2700)
    # A toolkit of which the readers are missing: the line says so. ctest takes the line for more than the exit status.
    if(NOT require)
        set_tests_properties(${tests} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
    endif()
    set_tests_properties(long.device.code.${vendor} PROPERTIES LABELS long PROCESSORS 2)
endforeach()

# HIP on the CPU: a checkout of ROCm/HIP-CPU and TBB (Debian: libtbb-dev).
set(SHARDWISE_HIP_CPU "" CACHE PATH "A checkout of ROCm/HIP-CPU, with which to run the HIP kernels on the processor")
if(SHARDWISE_HIP_CPU)
    if(NOT EXISTS "${SHARDWISE_HIP_CPU}/include/hip/hip_runtime.h")
        message(FATAL_ERROR "SHARDWISE_HIP_CPU: ${SHARDWISE_HIP_CPU}/include/hip/hip_runtime.h is not there")
    endif()
    find_library(shardwise_tbb tbb REQUIRED)
    shardwise_device_program(hip_cpu)
    foreach(source kernels host_code)
        set(unit "${CMAKE_CURRENT_BINARY_DIR}/device-hip-cpu-${source}.cpp")
        file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/device/${source}.cu\"\n" @ONLY)
        target_sources(test_device_hip_cpu PRIVATE "${unit}")
    endforeach()
    foreach(target device_cases_hip_cpu test_device_hip_cpu)
        target_include_directories(${target} BEFORE PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/device/hip_cpu")
        target_include_directories(${target} SYSTEM PRIVATE "${SHARDWISE_HIP_CPU}/include")
        target_compile_definitions(${target} PRIVATE SHARDWISE_HAS_HIP=1 SHARDWISE_HAS_HIP_CPU=1)
        target_compile_options(${target} PRIVATE -O1)
        # Its own headers have warnings.
        set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
        target_link_libraries(${target} PRIVATE shardwise::host "${shardwise_tbb}")
    endforeach()
    target_include_directories(test_device_hip_cpu PRIVATE ${shardwise_test_includes})
    target_include_directories(test_device_hip_cpu SYSTEM PRIVATE "${shardwise_doctest_include}")
    target_compile_definitions(test_device_hip_cpu PRIVATE ${shardwise_test_definitions})
    set_tests_properties(device.hip_cpu PROPERTIES FAIL_REGULAR_EXPRESSION "SKIPPED:")
endif()

# AMD's machine code on the processor: a checkout of tinygrad, whose emulator executes the kernels as clang makes them for gfx942 (CDNA, warps
# of 64) and gfx1100 (RDNA, warps of 32). Debian: clang-19 lld-19.
set(SHARDWISE_AMD_EMULATOR "" CACHE PATH "A checkout of tinygrad, with whose emulator to execute the HIP kernels' machine code")
if(SHARDWISE_AMD_EMULATOR)
    if(NOT EXISTS "${SHARDWISE_AMD_EMULATOR}/test/mockgpu/amd/emu.py")
        message(FATAL_ERROR "SHARDWISE_AMD_EMULATOR: ${SHARDWISE_AMD_EMULATOR}/test/mockgpu/amd/emu.py is not there")
    endif()
    find_program(shardwise_amd_clang NAMES clang++-19 REQUIRED)
    find_path(shardwise_amd_include hip/hip_runtime.h REQUIRED HINTS /opt/rocm/include)
    find_path(shardwise_amd_bitcode ockl.bc REQUIRED PATH_SUFFIXES amdgcn/bitcode HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /opt/rocm)
    set(architectures gfx942 gfx1100)
    # Debian's libraries are older than these: of an architecture they have a number alone, which is made here.
    set(bitcode "${CMAKE_CURRENT_BINARY_DIR}/amd-bitcode")
    file(GLOB libraries "${shardwise_amd_bitcode}/*.bc")
    file(COPY ${libraries} DESTINATION "${bitcode}")
    foreach(version 942=9402 1100=11000)
        string(REPLACE "=" ";" version "${version}")
        list(POP_FRONT version name)
        file(WRITE "${bitcode}/${name}.ll" "target triple = \"amdgcn-amd-amdhsa\"\n@__oclc_ISA_version = linkonce_odr protected "
                                           "local_unnamed_addr addrspace(4) constant i32 ${version}, align 4\n")
        execute_process(COMMAND "${shardwise_amd_clang}" -cc1 -triple amdgcn-amd-amdhsa -emit-llvm-bc -x ir "${bitcode}/${name}.ll"
                                -o "${bitcode}/oclc_isa_version_${name}.bc" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()

    shardwise_device_cases(device_cases_amd)
    add_executable(test_device_amd $<TARGET_OBJECTS:device_cases_amd> $<TARGET_OBJECTS:doctest_main>)
    set_target_properties(test_device_amd PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" LINKER_LANGUAGE CXX
                                                     CXX_EXTENSIONS OFF)
    cmake_path(GET shardwise_amd_clang PARENT_PATH folder)
    # -O1, and no packed products of floats, which gfx1100 has none of: of what -O3 makes the emulator executes some wrongly, and of packed ones, whose first half it
    # writes before it has read what the second needs.
    set(compile "${CMAKE_COMMAND}" -E env "PATH=/usr/lib/llvm-19/bin:${folder}:$ENV{PATH}" "${shardwise_amd_clang}" -std=c++20 -O1 -DNDEBUG
                -D__HIP_PLATFORM_AMD__=1 -DSHARDWISE_TEST_KERNELS_ELSEWHERE "-I${PROJECT_SOURCE_DIR}/include"
                "-I${CMAKE_CURRENT_SOURCE_DIR}/support" -idirafter "${shardwise_amd_include}" -x hip
                "--rocm-device-lib-path=${bitcode}")
    foreach(architecture IN LISTS architectures)
        set(code_${architecture} "")
        set(flags_${architecture} "--offload-arch=${architecture}")
    endforeach()
    list(APPEND flags_gfx942 -Xclang -target-feature -Xclang -packed-fp32-ops)
    set(code "")
    foreach(name kernels host_code ${shardwise_kernel_families})
        set(source "${PROJECT_SOURCE_DIR}/include/shardwise/kernels/instantiate/${name}.cu")
        if(NOT EXISTS "${source}")
            set(source "${CMAKE_CURRENT_SOURCE_DIR}/device/${name}.cu")
        endif()
        set(object "${CMAKE_CURRENT_BINARY_DIR}/device-amd-${name}.o")
        add_custom_command(OUTPUT "${object}" VERBATIM COMMENT "amd: ${name}, host code" DEPENDS "${source}"
                           DEPFILE "${object}.d" COMMAND ${compile} ${flags_gfx942} -MD -MF "${object}.d" --cuda-host-only -fuse-cuid=none -fPIC
                                                         -c "${source}" -o "${object}")
        target_sources(test_device_amd PRIVATE "${object}")
        set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
        if(name STREQUAL "host_code")
            continue()
        endif()
        foreach(architecture IN LISTS architectures)
            set(object "${CMAKE_CURRENT_BINARY_DIR}/device-amd-${architecture}-${name}.code")
            add_custom_command(OUTPUT "${object}" VERBATIM COMMENT "amd: ${name}, for ${architecture}" DEPENDS "${source}"
                               DEPFILE "${object}.d" COMMAND ${compile} ${flags_${architecture}} -MD -MF "${object}.d" --cuda-device-only
                                                             --no-gpu-bundle-output -c "${source}" -o "${object}")
            list(APPEND code "${object}")
            list(APPEND code_${architecture} "${object}")
        endforeach()
    endforeach()
    add_custom_target(device_amd_code DEPENDS ${code})
    add_dependencies(test_device_amd device_amd_code)
    target_sources(test_device_amd PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/device/amd/runtime.cpp")
    foreach(target device_cases_amd test_device_amd)
        target_include_directories(${target} SYSTEM PRIVATE "${shardwise_amd_include}")
        target_compile_definitions(${target} PRIVATE SHARDWISE_HAS_HIP=1 __HIP_PLATFORM_AMD__=1 NDEBUG)
        target_compile_options(${target} PRIVATE -O1)
        target_link_libraries(${target} PRIVATE shardwise::host)
    endforeach()
    # Each object by --cuda-host-only has the same name of a unit.
    target_link_options(test_device_amd PRIVATE LINKER:-z,muldefs)
    foreach(architecture IN LISTS architectures)
        # As left_out.txt says, and the file of the architecture.
        set(left_out "")
        foreach(file left_out.txt left_out_${architecture}.txt)
            file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/device/amd/${file}" lines REGEX "^[^#]")
            list(APPEND left_out ${lines})
        endforeach()
        list(TRANSFORM left_out REPLACE "\\*: .*" "*")
        list(JOIN left_out "," left_out)
        set(test device.amd.${architecture})
        add_test(NAME ${test} COMMAND test_device_amd "--test-case-exclude=${left_out}" WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
        set(execute "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/device/amd/execute.py" "${SHARDWISE_AMD_EMULATOR}"
                    ${code_${architecture}})
        list(JOIN execute " " execute)
        set_tests_properties(${test} PROPERTIES LABELS long TIMEOUT 7200 ENVIRONMENT "SHARDWISE_AMD_EXECUTE=${execute}")
    endforeach()
endif()
