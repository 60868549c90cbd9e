// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/op/operation.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Refuses the activation that a kernel of its own computes.
[[nodiscard]] inline Result<> check_kind(std::string_view kernel, ActivationKind kind) {
    if (kind != ActivationKind::xielu) return {};
    return Error{ErrorCode::unsupported}.in(kernel).at("xielu").because("has numbers of its own").fix("call xielu");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
