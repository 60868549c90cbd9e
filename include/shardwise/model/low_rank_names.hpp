// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>
#include <shardwise/op/operation.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A parameter of an adapter, by its name: a full one, one in its block, or one in the module of the product that it stands beside.
[[nodiscard]] constexpr bool is_low_rank_b(std::string_view parameter) {
    return parameter.starts_with("lora_B.") || parameter.find(".lora_B.") != std::string_view::npos;
}
[[nodiscard]] constexpr bool is_low_rank_a(std::string_view parameter) {
    return parameter.starts_with("lora_A.") || parameter.find(".lora_A.") != std::string_view::npos;
}
[[nodiscard]] constexpr bool is_low_rank_half(std::string_view parameter) {
    return is_low_rank_a(parameter) || is_low_rank_b(parameter);
}
/// Whether an operation has a weight that is none of an adapter: one that stays as it is where the adapter is trained.
[[nodiscard]] constexpr bool has_base_weight(Operation const& op) {
    return !op.parameters[0].empty() && !is_low_rank_half(op.parameters[0]);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
