// SPDX-License-Identifier: Apache-2.0
// A unit of shardwise::runtime where it is built with CUDA: executor and session on devices.
#define SHARDWISE_RUNTIME_CUDA 1

#include <shardwise/session/run_on_cuda.hpp>
