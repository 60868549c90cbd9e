# SPDX-License-Identifier: Apache-2.0
# What SHARDWISE_CUDA_ARCHITECTURES, SHARDWISE_HIP_ARCHITECTURES and SHARDWISE_HIP_COMPILER make of a kernel: compiled where nvcc and clang++ 19
# are, and read by cuobjdump where that is. `native` is asked of stand-ins for the vendors' programs.
#   cmake ... [-DLISTER=cuobjdump] -P device_code.cmake
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")
include("${SOURCE_DIR}/cmake/shardwise-device.cmake")

# expect_flags(FLAG...): nvcc's for SHARDWISE_CUDA_ARCHITECTURES.
function(expect_flags)
    shardwise_cuda_code(flags)
    list(TRANSFORM flags REPLACE "--generate-code=arch=compute_([0-9a-z]+),code=" "\\1 as ")
    if(NOT flags STREQUAL "${ARGN}")
        message(FATAL_ERROR "${SHARDWISE_CUDA_ARCHITECTURES}: expected '${ARGN}', got '${flags}'")
    endif()
endfunction()

# Later devices run the PTX of compute_80; none is of a letter.
expect_flags("80 as sm_80" "90a as sm_90a" "80 as compute_80")
set(SHARDWISE_CUDA_ARCHITECTURES 120 90 100f)
expect_flags("120 as sm_120" "90 as sm_90" "100f as sm_100f" "90 as compute_90")
set(SHARDWISE_CUDA_ARCHITECTURES 90a)
expect_flags("90a as sm_90a")

# write_program(NAME TEXT): a stand-in for a vendor's program, which prints TEXT.
function(write_program name text)
    file(WRITE "${WORK}/bin/${name}" "#!/bin/sh\nprintf '${text}'\n")
    file(CHMOD "${WORK}/bin/${name}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()
set(path "$ENV{PATH}")
write_program(nvidia-smi "9.0\\n8.6\\n9.0\\n")
write_program(rocm_agent_enumerator "gfx000\\ngfx90a\\ngfx90a\\ngfx1100\\n")
set(ENV{PATH} "${WORK}/bin:${path}")
set(SHARDWISE_CUDA_ARCHITECTURES native)
expect_flags("90 as sm_90" "86 as sm_86" "86 as compute_86")
set(SHARDWISE_HIP_ARCHITECTURES gfx942 native)
shardwise_architectures(architectures hip)
if(NOT architectures STREQUAL "gfx942;gfx90a;gfx1100")
    message(FATAL_ERROR "native of HIP: ${architectures}")
endif()

# expect_architectures_refused(TEXT VENDOR ARCHITECTURES)
function(expect_architectures_refused text vendor architectures)
    string(TOUPPER "${vendor}" upper)
    file(WRITE "${WORK}/refused.cmake" "cmake_minimum_required(VERSION 3.24)\n"
                                       "include(\"${SOURCE_DIR}/cmake/shardwise-device.cmake\")\n"
                                       "set(SHARDWISE_${upper}_ARCHITECTURES \"${architectures}\")\n"
                                       "shardwise_architectures(names ${vendor})\n")
    expect_refusal("${text}" "${CMAKE_COMMAND}" -P "${WORK}/refused.cmake")
endfunction()
write_program(nvidia-smi "No devices were found\\n")
write_program(rocm_agent_enumerator "gfx000\\n")
expect_architectures_refused("SHARDWISE_CUDA_ARCHITECTURES: native, but nvidia-smi finds no device here" cuda native)
expect_architectures_refused("SHARDWISE_HIP_ARCHITECTURES: native, but rocm_agent_enumerator finds no device here" hip native)
expect_architectures_refused("SHARDWISE_CUDA_ARCHITECTURES: \"sm_80\" is none; it may be 80, 90a, or native" cuda "90a;sm_80")
expect_architectures_refused("SHARDWISE_HIP_ARCHITECTURES: \"90a\" is none; it may be gfx90a, gfx1100, or native" hip 90a)
expect_architectures_refused("SHARDWISE_CUDA_ARCHITECTURES is empty" cuda "")
# clang++ finds its own programs here where they are not beside it.
file(GLOB folders /usr/lib/llvm-1[5-9]/bin)
list(SORT folders ORDER DESCENDING)
list(JOIN folders ":" folders)
set(ENV{PATH} "${path}:${folders}")

# One kernel, compiled as shardwise_add_kernels compiles those of the library.
find_program(ninja ninja REQUIRED)
file(WRITE "${WORK}/project/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.24)
project(code LANGUAGES CXX)
# Warps of 64 and of 32 threads in one object.
set(SHARDWISE_HIP_ARCHITECTURES gfx90a gfx1030)
add_subdirectory(\"${SOURCE_DIR}\" shardwise)
shardwise_compile_kernels(\${VENDOR} \"\${CMAKE_BINARY_DIR}/kernel.o\" \"\${CMAKE_SOURCE_DIR}/kernel.cu\" -O1)
add_custom_target(kernel ALL DEPENDS \"\${CMAKE_BINARY_DIR}/kernel.o\")
")
file(WRITE "${WORK}/project/kernel.cu" "#if defined(__HIP__)\n#include <hip/hip_runtime.h>\n#endif\n"
                                       "__global__ void doubled(float* x) { x[threadIdx.x] *= 2; }\n"
                                       "void launch(float* x) { doubled<<<1, 32>>>(x); }\n")
# code_project(OUT VENDOR ARGUMENT...): how that project is configured.
function(code_project out vendor)
    string(TOUPPER "${vendor}" upper)
    set(${out} "${CMAKE_COMMAND}" -G Ninja "-DCMAKE_MAKE_PROGRAM=${ninja}" -S "${WORK}/project" -B "${WORK}/${vendor}"
               "-DCMAKE_CXX_COMPILER=${COMPILER}" -DVENDOR=${vendor} -DSHARDWISE_CUDA=OFF -DSHARDWISE_HIP=OFF -DSHARDWISE_${upper}=ON
               -DSHARDWISE_MPI=OFF -DSHARDWISE_GLOO=OFF -DSHARDWISE_ONEDNN=OFF -DSHARDWISE_TESTS=OFF -DSHARDWISE_EXAMPLES=OFF
               -DSHARDWISE_BENCH=OFF ${ARGN} PARENT_SCOPE)
endfunction()

if(HAS_CUDA)
    code_project(configure cuda)
    run(${configure})
    run("${CMAKE_COMMAND}" --build "${WORK}/cuda")
    if(LISTER)
        run("${LISTER}" --list-ptx --list-elf "${WORK}/cuda/kernel.o")
        string(REGEX MATCHALL "sm_[0-9a-z]+[.](ptx|cubin)" code "${printed}")
        list(SORT code)
        if(NOT code STREQUAL "sm_80.cubin;sm_80.ptx;sm_90a.cubin")
            message(FATAL_ERROR "the default's code: '${code}'\n${printed}")
        endif()
    else()
        message(NOTICE "not read: cuobjdump is not installed")
    endif()
endif()

if(HAS_HIP)
    write_program(clang++-12 "clang version 12.0.1\\n")
    code_project(configure hip "-DSHARDWISE_HIP_COMPILER=${WORK}/bin/clang++-12")
    expect_refusal("clang++-12 is no clang++ 17 or later" ${configure})
    code_project(configure hip "-DSHARDWISE_HIP_COMPILER=${WORK}/bin/clang++-of-nobody")
    expect_refusal("clang++-of-nobody was not found" ${configure})
    write_program(clang++-99 "clang version 99.0\\n")
    file(APPEND "${WORK}/bin/clang++-99" "test \"\$1\" = --version\n")
    code_project(configure hip "-DSHARDWISE_HIP_COMPILER=${WORK}/bin/clang++-99")
    expect_refusal("clang++-99 makes no object" ${configure})
    find_program(clang clang++-19)
    if(clang)
        code_project(configure hip "-DSHARDWISE_HIP_COMPILER=clang++-19")
        run(${configure})
        run("${CMAKE_COMMAND}" --build "${WORK}/hip")
        file(STRINGS "${WORK}/hip/kernel.o" code REGEX "amdgcn-amd-amdhsa-+gfx")
        file(STRINGS "${WORK}/hip/kernel.o" compiler REGEX "clang version 19|LLD 19")
        foreach(architecture gfx90a gfx1030)
            if(NOT code MATCHES "--${architecture}" OR NOT compiler)
                message(FATAL_ERROR "by clang++-19 for gfx90a and gfx1030: '${code}' '${compiler}'")
            endif()
        endforeach()
    else()
        message(NOTICE "not compiled: clang++-19 is not installed")
    endif()
endif()
