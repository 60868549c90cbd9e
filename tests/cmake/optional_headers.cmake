# SPDX-License-Identifier: Apache-2.0
# Headers and tests that stand on somebody else's library: which they are is read off their #include lines. Where the library
# is not there, they are left out, visibly.
include_guard()

# shardwise_optional_library(NAME PATTERN FOLDER...): headers with an #include line that matches PATTERN need NAME, whose
# own headers are found through FOLDER..., none for the compilers' default folders, NOTFOUND where they are not there.
set(shardwise_optional_libraries "")
function(shardwise_optional_library name pattern)
    set(shardwise_optional_libraries ${shardwise_optional_libraries} ${name} PARENT_SCOPE)
    set(shardwise_optional_pattern_${name} "${pattern}" PARENT_SCOPE)
    set(shardwise_optional_folders_${name} "${ARGN}" PARENT_SCOPE)
endfunction()

find_path(shardwise_eigen_include Eigen/Core PATH_SUFFIXES eigen3)
find_path(shardwise_dlpack_include dlpack/dlpack.h)
find_path(shardwise_gloo_include gloo/config.h)
find_path(shardwise_dnnl_include oneapi/dnnl/dnnl.hpp)
find_path(shardwise_cuda_include cuda_runtime.h HINTS /usr/local/cuda/include)
find_path(shardwise_hip_include hip/hip_runtime.h)
# Debian has none: a stand-in declares what is called.
set(hipblaslt_folders "${PROJECT_SOURCE_DIR}/tests/fakes")
if(shardwise_hipblaslt_include)
    set(hipblaslt_folders "${shardwise_hipblaslt_include}")
endif()
find_package(MPI QUIET COMPONENTS CXX)
set(mpi_folders NOTFOUND)
if(MPI_CXX_FOUND)
    get_target_property(mpi_folders MPI::MPI_CXX INTERFACE_INCLUDE_DIRECTORIES)
endif()
# Headers without the library to link are not there either.
find_library(shardwise_gloo_library gloo)
find_library(shardwise_dnnl_library dnnl)
foreach(name gloo dnnl)
    if(NOT shardwise_${name}_library)
        set(shardwise_${name}_include NOTFOUND)
    endif()
endforeach()

shardwise_optional_library(eigen "<Eigen/" "${shardwise_eigen_include}")
shardwise_optional_library(dlpack "<dlpack/" "${shardwise_dlpack_include}")
shardwise_optional_library(mpi "<mpi[.]h>" ${mpi_folders})
shardwise_optional_library(gloo "<gloo/" "${shardwise_gloo_include}")
shardwise_optional_library(onednn "<(oneapi/)?dnnl" "${shardwise_dnnl_include}")
shardwise_optional_library(cuda "<(cuda|cublas)[A-Za-z_]*[.]h>" "${shardwise_cuda_include}")
shardwise_optional_library(hip "<hip/" "${shardwise_hip_include}")
shardwise_optional_library(hipblaslt "<hipblaslt/" ${hipblaslt_folders})

# What a test that includes the library's headers is linked with.
set(shardwise_optional_link_gloo "${shardwise_gloo_library}")
set(shardwise_optional_link_onednn "${shardwise_dnnl_library}")

# What its headers are to be compiled with.
set(shardwise_optional_flags_hip -D__HIP_PLATFORM_AMD__=1)
set(shardwise_optional_flags_mpi -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1)

# shardwise_needs(FILE MISSING FLAGS LINKS): the optional libraries that are not there though FILE includes them, the flags
# with which to compile it, and what to link it with.
function(shardwise_needs file missing flags links)
    set(lacking "")
    set(needed "")
    set(linked "")
    foreach(name IN LISTS shardwise_optional_libraries)
        file(STRINGS "${file}" lines REGEX "^#include ${shardwise_optional_pattern_${name}}")
        if(NOT lines)
            continue()
        endif()
        foreach(folder IN LISTS shardwise_optional_folders_${name})
            if(NOT folder)
                list(APPEND lacking ${name})
            elseif(NOT folder STREQUAL "/usr/include")
                list(APPEND needed "-isystem${folder}")
            endif()
        endforeach()
        list(APPEND needed ${shardwise_optional_flags_${name}})
        if(shardwise_optional_link_${name})
            list(APPEND linked "${shardwise_optional_link_${name}}")
        endif()
    endforeach()
    set(${missing} "${lacking}" PARENT_SCOPE)
    set(${flags} "${needed}" PARENT_SCOPE)
    set(${links} "${linked}" PARENT_SCOPE)
endfunction()
