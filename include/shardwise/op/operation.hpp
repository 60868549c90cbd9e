// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/activation_kind.hpp>
#include <shardwise/op/value.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What an operation computes; `op/<kind>.hpp` has its shapes, flops, traffic and workspace.
enum class OpKind : std::uint8_t {
    embedding,    // rows of a table by id
    norm,         // layer norm or rms norm over the last axis (or over each head)
    linear,       // in * weight^T (+ bias)
    rope,         // rotary position embedding, in place on queries or keys
    attention,    // softmax(q k^T) v with a key-value cache
    activation,   // gelu, silu, relu; with two inputs the gated product act(a) * b
    add,          // element-wise sum (residual, positions)
    route,        // top-k experts of each token from router scores
    experts,      // one linear per expert over the rows routed to it
    combine,      // weighted sum of the experts' rows back into token order
    last_token,   // the last row of each sequence, or the first, or their mean
    scale,        // element-wise product with a number, in place
    part,         // the same columns of every unit (head) of a value
    gated_delta,  // the gated delta rule over a state of each sequence, after a short convolution
};

/// With an offset the weight is one more than what checkpoints store (gemma, nemotron).
enum class NormKind : std::uint8_t { rms, layer, rms_offset, layer_offset };

/// True for norms that centre a row before they scale it.
[[nodiscard]] constexpr bool is_layer_norm(NormKind kind) {
    return kind == NormKind::layer || kind == NormKind::layer_offset;
}

/// True for norms that multiply by one more than what the model's own files store.
[[nodiscard]] constexpr bool has_offset(NormKind kind) {
    return kind == NormKind::rms_offset || kind == NormKind::layer_offset;
}

/// The heads of a gated delta rule. A value head has the query and the key of its key head.
struct DeltaShape {
    std::int64_t key_heads = 0;
    std::int64_t value_heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    /// Tokens that the convolution of a channel sees, the newest included.
    std::int64_t kernel = 1;

    [[nodiscard]] constexpr std::int64_t values_per_key() const { return key_heads > 0 ? value_heads / key_heads : 0; }
    /// Of a key head: the columns of its values, and those of its query, key and values, which the convolution runs over.
    [[nodiscard]] constexpr std::int64_t value_columns() const { return values_per_key() * value_dim; }
    [[nodiscard]] constexpr std::int64_t channels() const { return 2 * key_dim + value_columns(); }
    /// What so many key heads keep of a sequence, in fp32: the convolution's inputs, and a matrix for each value head.
    [[nodiscard]] constexpr std::int64_t state_elements(std::int64_t heads) const {
        return heads * (channels() * (kernel - 1) + values_per_key() * key_dim * value_dim);
    }
};

/// What the rows of an embedding's table are numbered by.
enum class TableIndex : std::uint8_t { token, position, token_type };

/// What an attention needs to know beyond its inputs.
struct AttentionShape {
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    /// MLA: elements of the compressed cache per token (latent + rope part); 0 where keys and values are cached.
    std::int64_t latent = 0;
    /// MLA: elements at the end of each key, and of the latent, that turn; 0 where the first ones of a head do.
    std::int64_t rotary = 0;
    /// Tokens that a query can see; 0 is all of them.
    std::int64_t window = 0;
    /// Tokens of a chunk: a query sees the keys of its own, beside what the window says; 0: there are none (llama4).
    std::int64_t chunk = 0;
    /// Scores grow with the logarithm of the position in steps of so many tokens; 0: they do not (llama4).
    std::int64_t score_step = 0;
    /// By how much of that logarithm: 1 + score_growth * log(1 + steps).
    double score_growth = 0.0;
    bool is_causal = true;
    /// Attends to the encoder's output: its cache is filled once.
    bool is_cross = false;
    /// Scores have a bias by distance, which is the same for all keys so far away or further; 0: none (mpnet).
    std::int64_t bias_reach = 0;
    /// What multiplies the scores; 0: 1 / sqrt(key_dim).
    double score_scale = 0.0;
    /// That is divided by the layer's number, from 1 on (gpt2).
    bool divides_by_layer = false;
    /// Scores have, before they are scaled, a slope times the key's position in bf16, as bf16 (falcon's linear biases).
    bool has_rounded_slopes = false;
    /// Scores become cap * tanh(score / cap); 0: they do not (gemma2).
    double soft_cap = 0.0;
    /// Under yarn scores grow by the square of yarn_magnitude(factor, mscale_all_dim) (deepseek).
    bool has_yarn_scores = false;
};

/// Whether a sequence's keys and values are kept from step to step: an encoder's own are not.
[[nodiscard]] constexpr bool keeps_rows(AttentionShape const& shape) {
    return shape.is_causal || shape.is_cross;
}

/// The numbers of a head that change its scores: a sink or a slope, or a bias for each offset of a key from -bias_reach on.
[[nodiscard]] constexpr std::int64_t score_numbers(AttentionShape const& shape) {
    return shape.bias_reach > 0 ? 2 * shape.bias_reach + 1 : 1;
}

/// One step of a block: what it reads, what it makes, and its sizes. Plain data for estimator, cost model and executor.
struct Operation {
    OpKind kind = OpKind::add;
    std::array<ValueId, 4> inputs{no_value, no_value, no_value, no_value};
    ValueId output = no_value;
    /// Parameters relative to the block's module ("self_attn.q_proj.weight"); a `*` stands for every expert, or head. After a / the name is
    /// a full one: of what several blocks share.
    std::array<std::string_view, 4> parameters{};
    /// Of linear, experts, embedding (rows, width) and norm (width, -); of part the columns of a unit before and after.
    std::int64_t in_features = 0;
    std::int64_t out_features = 0;
    /// Of route and experts.
    std::int64_t experts = 0;
    std::int64_t experts_per_token = 0;
    /// Of experts: rows are multiplied by their router's weights before the product, not when they are combined (llama4).
    bool weighs_inputs = false;
    /// Of attention and rope.
    AttentionShape attention{};
    /// Of gated_delta.
    DeltaShape delta{};
    NormKind norm = NormKind::rms;
    /// Of norm: what is added to the variance; 0: the model's.
    double epsilon = 0.0;
    /// Of norm: only the first `in_features` of a row are normalised, in place.
    bool is_first_part = false;
    /// Of norm: the weight has a row of `in_features` for each head; a `*` in its name stands for every head, whose weights have names of
    /// their own.
    bool has_head_weights = false;
    ActivationKind activation = ActivationKind::silu;
    /// Of embedding: what numbers the rows, and the row of index 0 (opt's positions begin at row 2).
    TableIndex index = TableIndex::token;
    std::int64_t first_row = 0;
    /// Of part: where in a unit the columns begin.
    std::int64_t first_column = 0;
    /// Of a table of positions: tokens with this id have none; their row is the one before `first_row` (roberta's padding).
    std::int64_t skipped_id = -1;
    /// Of last_token: take each sequence's first row instead (bert's pooler).
    bool takes_first = false;
    /// Of last_token: the mean of each sequence's rows instead (modernbert's classifiers).
    bool takes_mean = false;
    /// Of scale: what it multiplies by. Of route by the sparse mixer: by what share of itself a logit may fall short of the best.
    double factor = 1.0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
