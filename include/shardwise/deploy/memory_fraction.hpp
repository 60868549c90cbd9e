// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/deploy/deploy_request.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Steps of the fractions that engines are given: ten-thousandths.
inline constexpr std::int64_t fraction_steps = 10000;

/// The smallest number of steps of `whole` that holds `part`.
[[nodiscard]] constexpr std::int64_t steps_for(Bytes part, Bytes whole) {
    if (whole.count() < fraction_steps) return fraction_steps;
    // Steps of a whole number of bytes, rounded down: the answer is never too small.
    auto const step = whole.count() / fraction_steps;
    return part.count() / step + (part.count() % step != 0 ? 1 : 0);
}

/// "0.8125" for 8125 steps.
[[nodiscard]] inline std::string fraction_text(std::int64_t steps) {
    if (steps >= fraction_steps) return "1.0";
    auto digits = std::to_string(fraction_steps + steps).substr(1);
    while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
    return "0." + digits;
}

}  // namespace detail

/// The share of a device's memory that a server is told to take, rounded up to a ten-thousandth: all of the plan's terms.
///
/// Units  a fraction as text, "0.4219"
[[nodiscard]] inline std::string memory_fraction(DeployMemory const& memory) {
    return detail::fraction_text(detail::steps_for(memory.total, memory.device));
}

/// The share for weights and key-value cache alone (SGLang's "static" part).
[[nodiscard]] inline std::string static_fraction(DeployMemory const& memory) {
    return detail::fraction_text(detail::steps_for(memory.weights + memory.kv_cache, memory.device));
}

/// Checks that the share which an engine would take is free now.
///
/// Errors  out_of_memory
[[nodiscard]] inline Result<> check_free_memory(DeployMemory const& memory) {
    if (memory.free.count() < 0) return {};
    auto const steps = detail::steps_for(memory.total, memory.device);
    auto const step = memory.device.count() / detail::fraction_steps;
    auto const wanted = memory.device.count() < detail::fraction_steps ? memory.device : Bytes{steps * step};
    if (wanted <= memory.free) return {};
    return Error{ErrorCode::out_of_memory}
        .in("--devices")
        .needs(wanted)
        .has(memory.free)
        .because("are free on the fullest device now")
        .fix("stop what uses it, choose other devices, or lower --context or --sequences");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
