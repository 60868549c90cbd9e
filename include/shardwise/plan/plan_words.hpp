// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/hardware/device.hpp>
#include <shardwise/plan/parallel_plan.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A number with so many decimals, 0 to 4: "3.1".
[[nodiscard]] inline std::string decimal_text(double value, int decimals) {
    std::int64_t scale = 1;
    for (int i = 0; i < decimals; ++i) scale *= 10;
    if (!(value < 9e15)) return "very many";
    auto const rounded = static_cast<std::int64_t>(value * static_cast<double>(scale) + 0.5);
    auto text = std::to_string(rounded / scale);
    if (decimals == 0) return text;
    auto const rest = std::to_string(rounded % scale);
    return text + "." + std::string(static_cast<std::size_t>(decimals) - rest.size(), '0') + rest;
}

/// A time as people read it: "13.5 ms", "2.41 s".
[[nodiscard]] inline std::string seconds_text(double seconds) {
    if (seconds >= 1.0) return decimal_text(seconds, 2) + " s";
    if (seconds >= 1e-3) return decimal_text(seconds * 1e3, 1) + " ms";
    return decimal_text(seconds * 1e6, 0) + " us";
}

/// "3.1 times the step", "1.04 times the step", "1.002 times the step".
[[nodiscard]] inline std::string times_text(double ratio) {
    auto const excess = ratio - 1.0;
    auto const decimals = excess >= 0.995 ? 1 : excess >= 0.005 || excess <= 0.0 ? 2 : excess >= 0.0005 ? 3 : 4;
    return decimal_text(ratio, decimals) + " times the step";
}

[[nodiscard]] inline std::string count_text(std::int64_t count, std::string_view one, std::string_view many) {
    return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

/// Degrees as people write them: "tp 8, pp 2".
[[nodiscard]] inline std::string degrees_text(PlanDegrees const& degrees) {
    std::string text = "tp " + std::to_string(degrees.tp);
    auto const add = [&](std::string_view name, std::int64_t value, std::int64_t usual) {
        if (value != usual) text += ", " + std::string(name) + " " + std::to_string(value);
    };
    add("pp", degrees.pp, 1);
    add("dp", degrees.dp, 1);
    add("ep", degrees.ep, 1);
    add("zero", degrees.zero, 0);
    add("micro-batches", degrees.micro_batches, 1);
    return text;
}

/// A kind of link as its makers write it.
[[nodiscard]] inline std::string_view link_text(LinkType type) {
    switch (type) {
        case LinkType::nvlink:
            return "NVLink";
        case LinkType::pcie:
            return "PCIe";
        case LinkType::infinity_fabric:
            return "Infinity Fabric";
        case LinkType::infiniband:
            return "InfiniBand";
        case LinkType::ethernet:
            return "Ethernet";
        case LinkType::memory_bus:
            return "memory";
        case LinkType::none:
            break;
    }
    return "fast";
}

/// What a cost term is spent on.
[[nodiscard]] inline std::string_view term_text(std::string_view name) {
    if (name == "compute") return "arithmetic";
    if (name == "memory") return "reading weights and cache";
    if (name == "tensor_parallel") return "all-reduces between tensor-parallel ranks";
    if (name == "expert_parallel") return "all-to-alls between expert-parallel ranks";
    if (name == "pipeline") return "messages between stages";
    if (name == "data_parallel") return "reducing gradients";
    if (name == "bubble") return "stages that wait";
    if (name == "optimizer") return "the optimizer";
    return "kernel launches";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
