// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What one step of AdamW multiplies with, each rounded to float once.
struct AdamwTask {
    float gradient_factor = 1.0F;
    /// 1 - learning rate * weight decay.
    float kept = 1.0F;
    /// 1 - beta1.
    float first_share = 0.1F;
    float beta2 = 0.95F;
    /// 1 - beta2.
    float second_share = 0.05F;
    /// 1 / sqrt(1 - beta2^step).
    float root_factor = 1.0F;
    float epsilon = 1e-8F;
    /// learning rate / (1 - beta1^step).
    float step_size = 0.0F;
};

/// The same of SGD.
struct SgdTask {
    float gradient_factor = 1.0F;
    float weight_decay = 0.0F;
    float momentum = 0.0F;
    float learning_rate = 0.0F;
    bool is_nesterov = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
