// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a tensor is for; quantisation schemes choose by it, llama.cpp's mixtures by what a product does in its block.
enum class TensorUse : std::uint8_t {
    linear,  // the weight of a product inside a block that is none of the next seven
    attention_q,
    attention_k,
    attention_v,
    attention_qkv,     // the three in one matrix
    attention_output,  // what attention made, to the residual
    ffn_up,            // gate and up, apart or in one matrix
    ffn_down,
    embedding,      // the table of tokens
    side_table,     // positions, token types: small tables that GGUF files keep in F32
    relative_bias,  // a table of scores by distance
    head,           // the weight that makes logits
    router,         // the weight that scores experts
    norm,           // scale or shift of a norm
    bias,           // a bias vector
    other,          // anything else: sinks, buffers
};

/// True for the weights of products inside a block, routers aside.
[[nodiscard]] constexpr bool is_product(TensorUse use) {
    return use <= TensorUse::ffn_down;
}
/// True for tables that products do not read.
[[nodiscard]] constexpr bool is_table(TensorUse use) {
    return use == TensorUse::embedding || use == TensorUse::side_table || use == TensorUse::relative_bias;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
