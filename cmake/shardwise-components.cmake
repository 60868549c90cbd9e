# SPDX-License-Identifier: Apache-2.0
# The components that stand on somebody else's library. The build tree and the installed package make them by these rules, so
# that a machine is asked when a component is asked for, and never before.

# shardwise_find_parts(NAME HEADER LIBRARY): a header and the library that belongs to it; one without the other is not found.
macro(shardwise_find_parts name header library)
    find_path(shardwise_${name}_include ${header})
    find_library(shardwise_${name}_library ${library})
    mark_as_advanced(shardwise_${name}_include shardwise_${name}_library)
    if(shardwise_${name}_include AND shardwise_${name}_library)
        set(found TRUE)
        set(links "${shardwise_${name}_library}")
        set(folders "${shardwise_${name}_include}")
    endif()
endmacro()

# shardwise_component_library(COMPONENT): finds what the component needs; where it is there, `found` is true and `links`
# and `definitions` are what its users get; else `missing` says what to install.
macro(shardwise_component_library component)
    set(found FALSE)
    set(definitions "")
    set(folders "")
    if("${component}" STREQUAL "mpi")
        set(missing "an MPI for C++ (Debian: libopenmpi-dev)")
        find_package(MPI QUIET GLOBAL COMPONENTS CXX)
        # Not TARGET MPI::MPI_CXX: FindMPI makes that target also where it found nothing.
        if(MPI_CXX_FOUND)
            set(found TRUE)
            set(links MPI::MPI_CXX)
            # The C interface is all that is used.
            set(definitions OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
        endif()
    elseif("${component}" STREQUAL "gloo")
        set(missing "Gloo (Debian: libgloo-dev)")
        # Not by its CMake package, which is an error where one of its files is missing.
        shardwise_find_parts(gloo gloo/config.h gloo)
    elseif("${component}" STREQUAL "onednn")
        set(missing "oneDNN 2.6 or newer (Debian: libdnnl-dev)")
        # Not by its CMake package: Debian's asks for the headers of OpenCL too.
        shardwise_find_parts(dnnl oneapi/dnnl/dnnl.hpp dnnl)
    endif()
endmacro()

# shardwise_add_component(COMPONENT): makes shardwise::COMPONENT, with SHARDWISE_HAS_COMPONENT for the headers that ask.
# Sets shardwise_COMPONENT_missing to what to install where it cannot.
function(shardwise_add_component component)
    shardwise_component_library(${component})
    set(shardwise_${component}_missing "" PARENT_SCOPE)
    if(NOT found)
        set(shardwise_${component}_missing "${missing}" PARENT_SCOPE)
        return()
    endif()
    if(TARGET shardwise::${component})
        return()
    endif()
    string(TOUPPER "SHARDWISE_HAS_${component}" has)
    add_library(shardwise::${component} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(shardwise::${component} INTERFACE shardwise::host ${links})
    target_compile_definitions(shardwise::${component} INTERFACE ${has}=1 ${definitions})
    target_include_directories(shardwise::${component} SYSTEM INTERFACE ${folders})
endfunction()
