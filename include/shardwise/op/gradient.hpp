// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/value.hpp>

#include <array>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What the backward pass of an operation takes and gives; each operation states its own (`gradient` in `op/<kind>.hpp`). It
/// always reads the gradient of the operation's output, and the parameters where it has any.
struct GradientRule {
    /// Why there is no gradient; empty where there is one.
    std::string_view refusal{};
    /// Inputs that get one.
    std::array<bool, 4> has_gradient{};
    /// Inputs of the forward pass that gradients of inputs read, and whether they read its output.
    std::array<bool, 4> reads{};
    bool reads_output = false;
    /// Inputs of the forward pass that gradients of parameters read.
    std::array<bool, 4> parameters_read{};
    /// Who has which part of the parameters' gradients: sharded as the parameters are, whole on every rank, or a summand on each.
    Spread parameter_spread = Spread::replicated;
    /// True where one kernel makes the gradients of all inputs, or adds to all of them.
    bool is_made_together = false;
    /// True where the forward pass keeps a number for each query and head: the logarithm of the softmax's sum.
    bool reads_log_sums = false;

    [[nodiscard]] static constexpr GradientRule refused(std::string_view reason) { return {.refusal = reason}; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
