// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

namespace shardwise::testing {

/// What host_code.cu computes: a plan, a sum over ranks and a layer.
struct HostCode {
    double load = 0;
    double lower_bound = 0;
    bool has_same_devices = false;
    float sum = 0;
    float out = 0;
};
[[nodiscard]] Result<HostCode> run_host_code();

}  // namespace shardwise::testing
