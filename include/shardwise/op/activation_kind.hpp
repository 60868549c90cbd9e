// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

// Device code reads this: no other standard header.

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// gelu_new and gelu_fast compute gelu_tanh and differ in their module's class only. swiglu_clamped (gpt_oss) reads gate and
/// up interleaved: min(gate, 7) * sigmoid(1.702 gate) * (clamp(up, -7, 7) + 1). xielu (apertus) has four parameters: see
/// kernels/xielu.hpp.
enum class ActivationKind : std::uint8_t {
    silu,
    gelu,
    gelu_tanh,
    relu,
    tanh,
    quick_gelu,
    swiglu_clamped,
    gelu_new,
    gelu_fast,
    sigmoid,
    relu_squared,
    xielu,
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
