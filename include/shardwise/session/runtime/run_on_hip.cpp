// SPDX-License-Identifier: Apache-2.0
// A unit of shardwise::runtime where it is built with HIP: executor and session on devices.
#define SHARDWISE_RUNTIME_HIP 1

#include <shardwise/session/run_on_hip.hpp>
