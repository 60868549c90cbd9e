// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How fast a device computes and how fast its memory is.
///
/// Units  floating-point operations and bytes per second
struct RooflineRates {
    double flops = 0.0;
    double bandwidth = 0.0;
};

/// The least time for `flops` operations that move `bytes`: the slower of arithmetic and memory. A rate of 0 is unknown
/// and bounds nothing.
///
/// Units   seconds
/// Source  Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009
[[nodiscard]] constexpr double roofline_seconds(double flops, double bytes, RooflineRates const& rates) {
    auto const computing = rates.flops > 0.0 ? flops / rates.flops : 0.0;
    auto const moving = rates.bandwidth > 0.0 ? bytes / rates.bandwidth : 0.0;
    return computing < moving ? moving : computing;
}

/// The time of a message: the link's latency, and its bytes at the link's bandwidth.
///
/// Units   seconds
/// Source  the alpha-beta model (Hockney, Parallel Computing 20(3), 1994)
[[nodiscard]] constexpr double message_seconds(double bytes, double latency, double bandwidth) {
    return latency + (bandwidth > 0.0 ? bytes / bandwidth : 0.0);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
