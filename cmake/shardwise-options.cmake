# SPDX-License-Identifier: Apache-2.0
# What this version can be asked for. A part that it does not have is refused here, before anybody relies on it.

option(SHARDWISE_TESTS "Build the tests and the checks of the source tree" ${PROJECT_IS_TOP_LEVEL})
option(SHARDWISE_EXAMPLES "Build the program shardwise and the numbered examples" ${PROJECT_IS_TOP_LEVEL})
option(SHARDWISE_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
set(SHARDWISE_BATCH 32 CACHE STRING "Source files of the program and of the tests in one unit; 1: each alone, for work on one")
option(SHARDWISE_INSTALL "Install the headers and the package" ${PROJECT_IS_TOP_LEVEL})
# ON: an error where the library is missing; AUTO: with it where the machine has it.
set(SHARDWISE_MPI OFF CACHE STRING "Make shardwise::mpi, the communicator over MPI: ON, OFF or AUTO")
set(SHARDWISE_GLOO OFF CACHE STRING "Make shardwise::gloo, the communicator over Gloo: ON, OFF or AUTO")
set(SHARDWISE_ONEDNN OFF CACHE STRING "Make shardwise::onednn, host products by oneDNN: ON, OFF or AUTO")

set(SHARDWISE_CUDA OFF CACHE STRING "Make shardwise::cuda, the back end for NVIDIA's devices: ON, OFF or AUTO")
set(SHARDWISE_HIP OFF CACHE STRING "Make shardwise::hip, the back end for AMD's devices: ON, OFF or AUTO")

if(SHARDWISE_NCCL)
    message(FATAL_ERROR "shardwise ${PROJECT_VERSION} has no part that SHARDWISE_NCCL could switch on; leave it "
                        "out. Its components: shardwise, readers, host, cuda, hip, mpi, gloo, onednn.")
endif()

# shardwise_missing(WHAT PACKAGE FOR): stops with what to install.
function(shardwise_missing what package for)
    message(FATAL_ERROR "shardwise: ${for} need ${what} or newer, which was not found (Debian: ${package}; "
                        "scripts/setup.sh installs all that is missing). The library alone needs nothing: "
                        "-DSHARDWISE_TESTS=OFF -DSHARDWISE_EXAMPLES=OFF -DSHARDWISE_BENCH=OFF")
endfunction()

# Global, because a project that has this one as a subdirectory links shardwise::readers from its own folder.
if(NOT TARGET nlohmann_json::nlohmann_json)
    find_package(nlohmann_json 3.11 QUIET GLOBAL)
endif()
if((SHARDWISE_TESTS OR SHARDWISE_EXAMPLES OR SHARDWISE_BENCH) AND NOT TARGET nlohmann_json::nlohmann_json)
    shardwise_missing("nlohmann_json 3.11" nlohmann-json3-dev "the program, the tests and the benchmarks")
endif()
if(SHARDWISE_EXAMPLES)
    if(NOT TARGET CLI11::CLI11)
        find_package(CLI11 2.1 QUIET)
    endif()
    if(NOT TARGET CLI11::CLI11)
        shardwise_missing("CLI11 2.1" libcli11-dev "the program and the examples (SHARDWISE_EXAMPLES)")
    endif()
endif()
if(SHARDWISE_TESTS)
    find_path(shardwise_doctest_include doctest/doctest.h)
    if(NOT shardwise_doctest_include)
        shardwise_missing("doctest 2.4" doctest-dev "the tests (SHARDWISE_TESTS)")
    endif()
endif()
