// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/op/operation.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An activation's name in config.json and the class of its module.
struct ActivationName {
    std::string_view name;
    ActivationKind kind;
    std::string_view class_name;
};

/// The names that configurations use; the first row of a kind has its class.
///
/// Source  transformers 4.57 activations.py, ACT2CLS
inline constexpr std::array<ActivationName, 14> activation_names{{
    {"silu", ActivationKind::silu, "SiLUActivation"},
    {"swish", ActivationKind::silu, "SiLUActivation"},
    {"gelu", ActivationKind::gelu, "GELUActivation"},
    {"gelu_python", ActivationKind::gelu, "GELUActivation"},
    {"gelu_pytorch_tanh", ActivationKind::gelu_tanh, "GELUTanh"},
    {"gelu_python_tanh", ActivationKind::gelu_tanh, "GELUTanh"},
    {"gelu_new", ActivationKind::gelu_new, "NewGELUActivation"},
    {"gelu_fast", ActivationKind::gelu_fast, "FastGELUActivation"},
    {"quick_gelu", ActivationKind::quick_gelu, "QuickGELUActivation"},
    {"relu", ActivationKind::relu, "ReLU"},
    {"relu2", ActivationKind::relu_squared, "ReLUSquaredActivation"},
    {"tanh", ActivationKind::tanh, "Tanh"},
    {"sigmoid", ActivationKind::sigmoid, "Sigmoid"},
    {"xielu", ActivationKind::xielu, "XIELUActivation"},
}};

/// The activation that a configuration names; nothing for an unknown one.
[[nodiscard]] constexpr Optional<ActivationKind> parse_activation(std::string_view name) {
    for (auto const& row : activation_names) {
        if (row.name == name) return row.kind;
    }
    return std::nullopt;
}

/// The class of an activation's module in transformers.
[[nodiscard]] constexpr std::string_view activation_class(ActivationKind kind) {
    for (auto const& row : activation_names) {
        if (row.kind == kind) return row.class_name;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
