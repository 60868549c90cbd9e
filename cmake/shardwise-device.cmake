# SPDX-License-Identifier: Apache-2.0
# Devices: the targets shardwise::cuda and shardwise::hip, and their kernels. The build tree and the installed package read the
# same file. No language is enabled: the kernels are a few translation units, which custom commands compile side by side.
#
#   find_package(shardwise REQUIRED COMPONENTS cuda)
#   target_link_libraries(engine PRIVATE shardwise::cuda)
#   shardwise_add_kernels(engine)
#   set(SHARDWISE_CUDA_JIT ON) or set(SHARDWISE_HIP_JIT ON), before find_package: the vendor's kernels are compiled when they are first
#   called, without nvcc or hipcc
#   set(SHARDWISE_HIPBLASLT ON), before find_package: shardwise::hip links hipBLASLt for its products
#   shardwise_add_kernels(engine FORMATS bf16 q4_0 ELEMENTS bf16 HEADS 64 128)   # the kernels of these alone

# A file that was found in an earlier run may be another installation's.
unset(shardwise_kernels_source CACHE)
find_file(shardwise_kernels_source shardwise/kernels/instantiate.cu
          HINTS "${CMAKE_CURRENT_LIST_DIR}/../include" "${CMAKE_CURRENT_LIST_DIR}/../../../include" NO_DEFAULT_PATH)
mark_as_advanced(shardwise_kernels_source)
set(shardwise_device_sources_script "${CMAKE_CURRENT_LIST_DIR}/shardwise-device-sources.cmake" CACHE INTERNAL "")

# The files of kernels/instantiate/, each compiled for itself.
set(shardwise_kernel_families attention collectives products rows CACHE INTERNAL "")
set(SHARDWISE_CUDA_ARCHITECTURES "80;90" CACHE STRING "Compute capabilities that the kernels are compiled for")
set(SHARDWISE_HIP_ARCHITECTURES "gfx90a" CACHE STRING "AMD processors that the kernels are compiled for, with warps of 64 (gfx9) or 32 (gfx10 to gfx12)")
set(SHARDWISE_KERNELS "all" CACHE STRING
    "Which kernels are compiled: all, or formats of weights, elements:A,B of activations and heads:A,B of attention (bf16;q4_0;heads:64,128)")

option(SHARDWISE_CUDA_JIT "CUDA's kernels are compiled by NVRTC when they are first called: there need be no nvcc" OFF)
option(SHARDWISE_HIP_JIT "HIP's kernels are compiled by hipRTC when they are first called: there need be no hipcc" OFF)
option(SHARDWISE_HIPBLASLT "HIP's products of many rows by dense weights are hipBLASLt's, which is linked" OFF)

# shardwise_try_hip(): sets shardwise_hip_works in the cache: whether hipcc makes an object; no is asked again. It does not without ROCm's device
# libraries, which only it knows where to look for.
function(shardwise_try_hip)
    if(shardwise_hip_works)
        return()
    endif()
    set(probe "${CMAKE_CURRENT_BINARY_DIR}/shardwise-hip-probe")
    file(WRITE "${probe}.hip" "__global__ void fill(float* out) { out[threadIdx.x] = 1; }\n")
    list(GET SHARDWISE_HIP_ARCHITECTURES 0 architecture)
    execute_process(COMMAND "${shardwise_hip_compiler}" -include hip/hip_runtime.h "-I${shardwise_hip_include}"
                            "--offload-arch=${architecture}" -x hip -c "${probe}.hip" -o "${probe}.o"
                    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    set(works FALSE)
    if(status EQUAL 0)
        set(works TRUE)
    endif()
    set(shardwise_hip_works ${works} CACHE INTERNAL "hipcc makes an object for ${architecture}")
endfunction()

# shardwise_find_cuda(): makes CUDA::cudart and CUDA::cublasLt of what lies in the folder CUDAToolkit_ROOT, where CMake, which goes by nvcc,
# has found no toolkit.
function(shardwise_find_cuda)
    set(roots "${CUDAToolkit_ROOT}" "$ENV{CUDA_PATH}" /usr/local/cuda)
    foreach(library cudart cublasLt)
        set(header cuda_runtime_api.h)
        if(library STREQUAL "cublasLt")
            set(header cublasLt.h)
        endif()
        find_path(shardwise_${library}_include ${header} HINTS ${roots} PATH_SUFFIXES include)
        find_library(shardwise_${library}_library NAMES ${library} lib${library}.so.13 lib${library}.so.12 HINTS ${roots}
                     PATH_SUFFIXES lib64 lib)
        mark_as_advanced(shardwise_${library}_include shardwise_${library}_library)
        if(NOT TARGET CUDA::${library} AND shardwise_${library}_include AND shardwise_${library}_library)
            add_library(CUDA::${library} INTERFACE IMPORTED GLOBAL)
            target_include_directories(CUDA::${library} SYSTEM INTERFACE "${shardwise_${library}_include}")
            target_link_libraries(CUDA::${library} INTERFACE "${shardwise_${library}_library}")
        endif()
    endforeach()
    set(shardwise_cuda_product_include "${shardwise_cublasLt_include}" PARENT_SCOPE)
endfunction()

# shardwise_add_device(VENDOR MISSING): makes shardwise::cuda or shardwise::hip; where it cannot, MISSING is what to install.
function(shardwise_add_device vendor missing)
    set(${missing} "" PARENT_SCOPE)
    if(TARGET shardwise::${vendor})
        return()
    endif()
    if(vendor STREQUAL "cuda")
        find_package(CUDAToolkit QUIET GLOBAL)
        find_program(shardwise_cuda_compiler nvcc HINTS "${CUDAToolkit_BIN_DIR}" /usr/local/cuda/bin)
        find_path(shardwise_cuda_product_include cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
        mark_as_advanced(shardwise_cuda_product_include)
        set(needed "the CUDA toolkit with nvcc and cuBLASLt")
        set(has_compiler "${shardwise_cuda_compiler}")
        if(SHARDWISE_CUDA_JIT)
            shardwise_find_cuda()
            set(needed "the CUDA toolkit's runtime and cuBLASLt, with their headers")
            set(has_compiler TRUE)
        endif()
        if(NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublasLt OR NOT has_compiler OR NOT shardwise_cuda_product_include)
            set(${missing} "${needed}" PARENT_SCOPE)
            return()
        endif()
        # cuBLASLt is half a gigabyte: only who links this target gets it.
        set(links CUDA::cudart CUDA::cublasLt ${CMAKE_DL_LIBS})
    else()
        # By hand: Debian's hip package asks for compilers and libraries that a host program does not need.
        find_program(shardwise_hip_compiler hipcc HINTS /opt/rocm/bin)
        find_path(shardwise_hip_include hip/hip_runtime_api.h HINTS /opt/rocm/include)
        find_library(shardwise_hip_library amdhip64 HINTS /opt/rocm/lib)
        mark_as_advanced(shardwise_hip_include shardwise_hip_library)
        set(needed "HIP (Debian: hipcc libamdhip64-dev rocm-device-libs)")
        set(has_compiler FALSE)
        if(SHARDWISE_HIP_JIT)
            set(needed "the HIP runtime with its headers (Debian: libamdhip64-dev)")
            set(has_compiler TRUE)
        elseif(shardwise_hip_compiler AND shardwise_hip_include AND shardwise_hip_library)
            shardwise_try_hip()
            set(has_compiler ${shardwise_hip_works})
        endif()
        if(NOT has_compiler OR NOT shardwise_hip_include OR NOT shardwise_hip_library)
            set(${missing} "${needed}" PARENT_SCOPE)
            return()
        endif()
        # hipRTC is opened where a kernel is compiled.
        set(links "${shardwise_hip_library}" ${CMAKE_DL_LIBS})
        if(SHARDWISE_HIPBLASLT)
            find_path(shardwise_hipblaslt_include hipblaslt/hipblaslt.h HINTS /opt/rocm/include)
            find_library(shardwise_hipblaslt_library hipblaslt HINTS /opt/rocm/lib)
            mark_as_advanced(shardwise_hipblaslt_include shardwise_hipblaslt_library)
            if(NOT shardwise_hipblaslt_include OR NOT shardwise_hipblaslt_library)
                set(${missing} "hipBLASLt with its headers, for SHARDWISE_HIPBLASLT (ROCm 6 or later: hipblaslt-dev)"
                    PARENT_SCOPE)
                return()
            endif()
            list(PREPEND links "${shardwise_hipblaslt_library}")
        endif()
    endif()
    mark_as_advanced(shardwise_${vendor}_compiler)
    string(TOUPPER "${vendor}" upper)
    add_library(shardwise::${vendor} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(shardwise::${vendor} INTERFACE shardwise::host ${links})
    target_compile_definitions(shardwise::${vendor} INTERFACE SHARDWISE_HAS_${upper}=1)
    if(vendor STREQUAL "hip")
        target_compile_definitions(shardwise::hip INTERFACE __HIP_PLATFORM_AMD__=1)
        target_include_directories(shardwise::hip SYSTEM INTERFACE "${shardwise_hip_include}")
        if(SHARDWISE_HIPBLASLT)
            target_compile_definitions(shardwise::hip INTERFACE SHARDWISE_HAS_HIPBLASLT=1)
            target_include_directories(shardwise::hip SYSTEM INTERFACE "${shardwise_hipblaslt_include}")
        endif()
    endif()
endfunction()

# shardwise_assertion_flags(OUT TARGET): what decides whether TARGET's units have assertions, as flags: device objects must have
# them as well, since whether they are on is part of every function's name (core/version.hpp).
function(shardwise_assertion_flags out target)
    set(flags "")
    set(configurations ${CMAKE_CONFIGURATION_TYPES})
    if(NOT configurations)
        set(configurations "${CMAKE_BUILD_TYPE}")
    endif()
    foreach(configuration IN LISTS configurations)
        string(TOUPPER "${configuration}" upper)
        string(REGEX MATCHALL "(^| )-[DU](NDEBUG|SHARDWISE_ASSERT)[^ ]*" given
               "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${upper}}")
        foreach(flag IN LISTS given)
            string(STRIP "${flag}" flag)
            list(APPEND flags "$<$<CONFIG:${configuration}>:${flag}>")
        endforeach()
    endforeach()
    set(definitions "$<FILTER:$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>,INCLUDE,^(NDEBUG|SHARDWISE_ASSERT)>")
    list(APPEND flags "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},$<SEMICOLON>-D>>")
    list(APPEND flags "$<FILTER:$<TARGET_PROPERTY:${target},COMPILE_OPTIONS>,INCLUDE,^-[DU](NDEBUG|SHARDWISE_ASSERT)>")
    set(${out} "${flags}" PARENT_SCOPE)
endfunction()

# shardwise_compile_kernels(VENDOR OBJECT SOURCE [FLAG...]): an object by the vendor's device compiler.
function(shardwise_compile_kernels vendor object source)
    string(TOUPPER "${vendor}" upper)
    list(JOIN SHARDWISE_${upper}_ARCHITECTURES "," architectures)
    set(flags -std=c++20 -c "${source}" -o "${object}" "-DSHARDWISE_ARCHITECTURES=${architectures}" ${ARGN})
    # Generator expressions name the include folder as the build tree or the installed package has it.
    set(folders "$<TARGET_PROPERTY:shardwise::shardwise,INTERFACE_INCLUDE_DIRECTORIES>")
    set(includes "-I$<JOIN:$<FILTER:${folders},EXCLUDE,^$>,;-I>")
    if(vendor STREQUAL "cuda")
        foreach(architecture IN LISTS SHARDWISE_CUDA_ARCHITECTURES)
            list(APPEND flags "--generate-code=arch=compute_${architecture},code=sm_${architecture}")
        endforeach()
        # nvcc takes what stands behind a comma for a definition of its own.
        list(TRANSFORM flags REPLACE "," "\\\\," REGEX "^-DSHARDWISE_(KERNELS|ARCHITECTURES)=")
        list(APPEND flags -Xcompiler -fPIC -ccbin "${CMAKE_CXX_COMPILER}" -MD -MF "${object}.d")
        # nvcc 13 takes clang up to 20 and g++ up to 15; another host compiler's objects link just as well.
        set(command "${shardwise_cuda_compiler}")
    else()
        foreach(architecture IN LISTS SHARDWISE_HIP_ARCHITECTURES)
            list(APPEND flags "--offload-arch=${architecture}")
        endforeach()
        list(APPEND flags -fPIC -x hip -MD -MF "${object}.d")
        # -x hip counts for what follows it.
        list(REMOVE_ITEM flags -c "${source}")
        list(APPEND flags -c "${source}")
        set(command "${shardwise_hip_compiler}")
    endif()
    add_custom_command(OUTPUT "${object}"
                       COMMAND "${command}" "${includes}" ${flags}
                       DEPENDS "${source}"
                       DEPFILE "${object}.d"
                       COMMENT "${vendor}: ${source}"
                       COMMAND_EXPAND_LISTS VERBATIM)
endfunction()

# shardwise_read_kernels(VENDOR OBJECT SOURCE [FLAG...]): an object by the host's compiler that launches the vendor's kernels and has none.
function(shardwise_read_kernels vendor object source)
    set(folders "$<TARGET_PROPERTY:shardwise::shardwise,INTERFACE_INCLUDE_DIRECTORIES>")
    set(includes "-I$<JOIN:$<FILTER:${folders},EXCLUDE,^$>,;-I>")
    if(vendor STREQUAL "cuda")
        set(toolkit "-idirafter$<JOIN:$<TARGET_PROPERTY:CUDA::cudart,INTERFACE_INCLUDE_DIRECTORIES>,;-idirafter>")
        set(definitions -DSHARDWISE_CUDA_JIT)
    else()
        set(toolkit "-idirafter${shardwise_hip_include}")
        set(definitions -DSHARDWISE_HIP_JIT -D__HIP_PLATFORM_AMD__=1)
    endif()
    add_custom_command(OUTPUT "${object}"
                       COMMAND "${CMAKE_CXX_COMPILER}" -std=c++20 -fPIC ${definitions} "${includes}" "${toolkit}" ${ARGN}
                               -MD -MF "${object}.d" -o "${object}" -c -x c++ "${source}"
                       DEPENDS "${source}"
                       DEPFILE "${object}.d"
                       COMMENT "launches of ${source}"
                       COMMAND_EXPAND_LISTS VERBATIM)
endfunction()

# shardwise_device_sources(FILE): writes the sources of device code as a unit of C++.
function(shardwise_device_sources file)
    cmake_path(GET shardwise_kernels_source PARENT_PATH include)
    cmake_path(GET include PARENT_PATH include)
    cmake_path(GET include PARENT_PATH include)
    add_custom_command(OUTPUT "${file}"
                       COMMAND "${CMAKE_COMMAND}" "-DINCLUDE=${include}" "-DOUT=${file}" -P "${shardwise_device_sources_script}"
                       DEPENDS "${shardwise_device_sources_script}"
                       DEPFILE "${file}.d"
                       COMMENT "sources of device code"
                       VERBATIM)
endfunction()

# shardwise_kernel_list(OUT ITEM...): the definition that makes the kernels of some items (kernels/detail/kernel_list.hpp), such as bf16,
# heads:64,128, all.
function(shardwise_kernel_list out)
    set(names "")
    foreach(item IN LISTS ARGN)
        string(FIND "${item}" ":" colon)
        if(colon EQUAL -1)
            list(APPEND names "${item}")
            continue()
        endif()
        string(SUBSTRING "${item}" 0 ${colon} kind)
        math(EXPR colon "${colon} + 1")
        string(SUBSTRING "${item}" ${colon} -1 values)
        string(REPLACE "," ";" values "${values}")
        list(TRANSFORM values PREPEND "${kind}:")
        list(APPEND names ${values})
    endforeach()
    list(JOIN names "," names)
    if(NOT names MATCHES "^[a-z0-9_:]+(,[a-z0-9_:]+)*$")
        message(FATAL_ERROR "SHARDWISE_KERNELS: \"${names}\" is no list of kernels, such as bf16;q4_0;heads:64,128")
    endif()
    set(${out} "-DSHARDWISE_KERNELS=${names}" PARENT_SCOPE)
endfunction()

# shardwise_add_kernels(TARGET [FORMATS NAME...] [ELEMENTS NAME...] [HEADS WIDTH...]): links the kernels into TARGET, which links
# shardwise::cuda or shardwise::hip: of these formats of weights, elements of activations and widths of heads, or as SHARDWISE_KERNELS
# says. A call whose kernel is left out is an error that names the item.
function(shardwise_add_kernels target)
    cmake_parse_arguments(arg "" "" "FORMATS;ELEMENTS;HEADS" ${ARGN})
    if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
        message(FATAL_ERROR "shardwise_add_kernels(${target}): FORMATS, ELEMENTS and HEADS, each with values, not ${ARGN}")
    endif()
    set(items ${SHARDWISE_KERNELS})
    if(arg_FORMATS OR arg_ELEMENTS OR arg_HEADS)
        set(items ${arg_FORMATS})
        foreach(kind ELEMENTS HEADS)
            string(TOLOWER "${kind}" name)
            foreach(value IN LISTS arg_${kind})
                list(APPEND items "${name}:${value}")
            endforeach()
        endforeach()
    endif()
    shardwise_kernel_list(list ${items})
    get_target_property(libraries ${target} LINK_LIBRARIES)
    cmake_path(GET shardwise_kernels_source PARENT_PATH folder)
    set(has_vendor FALSE)
    set(has_run_time_kernels "")
    foreach(vendor cuda hip)
        if(NOT "shardwise::${vendor}" IN_LIST libraries)
            continue()
        endif()
        set(has_vendor TRUE)
        shardwise_assertion_flags(assertions ${target})
        string(TOUPPER "${vendor}" upper)
        set(is_read ${SHARDWISE_${upper}_JIT})
        if(is_read)
            list(APPEND has_run_time_kernels ${vendor})
        endif()
        foreach(family IN LISTS shardwise_kernel_families)
            set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}-${family}-${vendor}.o")
            set(source "${folder}/instantiate/${family}.cu")
            if(is_read)
                shardwise_read_kernels(${vendor} "${object}" "${source}" -O2 "${list}" ${assertions})
            else()
                shardwise_compile_kernels(${vendor} "${object}" "${source}" -O3 "${list}" ${assertions})
            endif()
            target_sources(${target} PRIVATE "${object}")
            set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
        endforeach()
    endforeach()
    if(has_run_time_kernels)
        shardwise_device_sources("${CMAKE_CURRENT_BINARY_DIR}/${target}-device-sources.cpp")
        target_sources(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/${target}-device-sources.cpp")
    endif()
    if(NOT has_vendor)
        message(FATAL_ERROR "shardwise_add_kernels(${target}): link shardwise::cuda or shardwise::hip to it first")
    endif()
endfunction()
