# SPDX-License-Identifier: Apache-2.0
# What is unknown or missing is an error at configure time that says what to do.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

set(configure "${CMAKE_COMMAND}" -G Ninja "-DCMAKE_CXX_COMPILER=${COMPILER}")
set(consumer ${configure} -S "${SOURCE_DIR}/tests/consumer" -B "${WORK}/consumer" "-DCMAKE_PREFIX_PATH=${PREFIX}")
set(shardwise ${configure} -S "${SOURCE_DIR}" -B "${WORK}/shardwise" -DSHARDWISE_TESTS=OFF -DSHARDWISE_EXAMPLES=OFF
              -DSHARDWISE_BENCH=OFF)

# Nothing that this machine has in its own folders is found.
set(hidden -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF)

expect_refusal("shardwise has no component 'telepathy'; its components are: shardwise, host, readers, runtime, cuda, hip, mpi, gloo, onednn"
               ${consumer} -DCONSUMER_COMPONENTS=telepathy)
expect_refusal("the component 'readers' needs nlohmann_json 3.11 or newer, which was not found (Debian: nlohmann-json3-dev"
               ${consumer} -DCONSUMER_COMPONENTS=readers -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
expect_refusal("the component 'runtime' needs nlohmann_json 3.11 or newer, which was not found (Debian: nlohmann-json3-dev"
               ${consumer} -DCONSUMER_COMPONENTS=runtime -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)

expect_refusal("the component 'mpi' needs an MPI for C++ (Debian: libopenmpi-dev), which was not found"
               ${consumer} -DCONSUMER_COMPONENTS=mpi -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
expect_refusal("the component 'gloo' needs Gloo (Debian: libgloo-dev), which was not found"
               ${consumer} -DCONSUMER_COMPONENTS=gloo ${hidden})

set(none -DSHARDWISE_NCCL=OFF -DSHARDWISE_CUDA=OFF)
expect_refusal("has no part that SHARDWISE_NCCL could switch on; leave it out" ${shardwise} -DSHARDWISE_NCCL=ON)
expect_refusal("SHARDWISE_CUDA needs the CUDA toolkit with nvcc and cuBLASLt, which was not found"
               ${shardwise} -DSHARDWISE_NCCL=OFF -DSHARDWISE_CUDA=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
expect_refusal("SHARDWISE_MPI needs an MPI for C++ (Debian: libopenmpi-dev), which was not found"
               ${shardwise} ${none} -DSHARDWISE_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
expect_refusal("SHARDWISE_GLOO needs Gloo (Debian: libgloo-dev), which was not found"
               ${shardwise} ${none} -DSHARDWISE_MPI=OFF -DSHARDWISE_GLOO=ON ${hidden})
list(APPEND none -DSHARDWISE_MPI=OFF -DSHARDWISE_GLOO=OFF)

expect_refusal("need nlohmann_json 3.11 or newer, which was not found (Debian: nlohmann-json3-dev"
               ${shardwise} ${none} -DSHARDWISE_BENCH=ON -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
expect_refusal("need CLI11 2.1 or newer, which was not found (Debian: libcli11-dev"
               ${shardwise} -DSHARDWISE_EXAMPLES=ON -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=OFF
               -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON)
expect_refusal("need doctest 2.4 or newer, which was not found (Debian: doctest-dev"
               ${shardwise} -DSHARDWISE_TESTS=ON -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=OFF ${hidden})
