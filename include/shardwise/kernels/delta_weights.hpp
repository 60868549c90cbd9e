// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/tensor_view.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a gated delta rule multiplies with, for the key heads of one rank: the convolution's weights of all q, all k and all v,
/// dt_bias and -exp(A_log) of each value head, the norm's weight, and what is added to its variance.
template <class Backend>
struct DeltaWeights {
    TensorView<float const, 1, Backend> convolution;
    TensorView<float const, 1, Backend> dt_bias;
    TensorView<float const, 1, Backend> decay;
    TensorView<float const, 1, Backend> norm;
    float epsilon = 1e-6F;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
