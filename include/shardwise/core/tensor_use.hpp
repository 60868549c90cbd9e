// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a tensor is for; quantisation schemes choose by it.
enum class TensorUse : std::uint8_t {
    linear,     // the weight of a product inside a block
    embedding,  // a table of token, position or type embeddings
    head,       // the weight that makes logits
    router,     // the weight that scores experts
    norm,       // scale or shift of a norm
    bias,       // a bias vector
    other,      // anything else: sinks, relative positions, buffers
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
