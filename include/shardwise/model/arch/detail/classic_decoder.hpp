// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/activation_names.hpp>
#include <shardwise/model/arch/detail/config_checks.hpp>
#include <shardwise/model/arch/detail/model_class.hpp>
#include <shardwise/model/arch/detail/parts.hpp>

/// What the transformers before llama share: layer norms with biases, a two-layer MLP, config keys of their own.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a family's config.json calls the sizes that are checked, for errors.
struct ConfigKeys {
    std::string_view hidden_size = "hidden_size";
    std::string_view layers = "num_hidden_layers";
    std::string_view heads = "num_attention_heads";
    std::string_view kv_heads = "num_key_value_heads";
    std::string_view intermediate_size = "intermediate_size";
};

/// An error where a size is below 1, or so far beyond every model that products of sizes are at risk.
///
/// Errors  invalid_field
[[nodiscard]] constexpr Result<> check_size(std::string_view key, std::int64_t size) {
    constexpr auto most = std::int64_t{1} << 24U;
    if (size < 1) return Error{ErrorCode::invalid_field}.at(key).because("must be at least 1").got(size);
    if (size > most) return Error{ErrorCode::invalid_field}.at(key).because("is too large").got(size).at_most(most);
    return {};
}

/// The sizes that every family has, kv_heads included: call it when absent values are derived.
///
/// Errors  invalid_field, capacity_exceeded
[[nodiscard]] constexpr Result<> check_sizes(ModelConfig const& config, ConfigKeys const& keys,
                                             bool is_head_dim_given = false) {
    if (auto const ok = check_size("vocab_size", config.vocab_size); !ok) return ok;
    if (auto const ok = check_size(keys.hidden_size, config.hidden_size); !ok) return ok;
    if (auto const ok = check_size(keys.intermediate_size, config.intermediate_size); !ok) return ok;
    if (auto const ok = check_size(keys.layers, config.layers); !ok) return ok;
    if (auto const ok = check_size(keys.heads, config.heads); !ok) return ok;
    if (auto const ok = check_size(keys.kv_heads, config.kv_heads); !ok) return ok;
    if (config.layers > LayerSet::capacity) {
        return Error{ErrorCode::capacity_exceeded}
            .at(keys.layers)
            .because("is more than this library plans for")
            .got(config.layers)
            .at_most(LayerSet::capacity);
    }
    if (!is_head_dim_given && config.hidden_size % config.heads != 0) {
        return Error{ErrorCode::invalid_field}
            .at(keys.hidden_size)
            .because("is not a multiple of the number of heads")
            .got(config.hidden_size)
            .multiple_of(config.heads);
    }
    if (config.heads % config.kv_heads != 0) {
        return Error{ErrorCode::invalid_field}
            .at(keys.kv_heads)
            .because("does not divide the number of heads")
            .got(config.kv_heads)
            .divisor_of(config.heads);
    }
    return check_products(config);
}

/// nn.LayerNorm with weight and bias.
[[nodiscard]] constexpr ModuleId add_layer_norm(PartMaker& part, std::int64_t size) {
    return part.norm("LayerNorm", size, true);
}

/// A table of scores by buckets of distances.
[[nodiscard]] constexpr ModuleId add_relative_bias(PartMaker& part, ModelConfig const& config) {
    return part.add("Embedding", {part.tensors().table(config.position_buckets, config.heads,
                                                       ShardRule::units(1, config.heads), TensorUse::relative_bias)});
}

/// Attention with as many key-value heads as configured, the model's head size, and causal unless said otherwise.
[[nodiscard]] constexpr AttentionShape plain_attention(ModelConfig const& config, bool is_causal = true) {
    return {.heads = config.heads,
            .kv_heads = config.kv_heads,
            .key_dim = config.head_dim,
            .value_dim = config.head_dim,
            .rope_layout = rope_layout(config),
            .is_causal = is_causal,
            .bias_buckets = config.position_buckets,
            .score_scale = config.score_scale,
            .has_slopes = config.alibi};
}

/// up -> act -> down, by the paths of the two linear layers.
[[nodiscard]] constexpr ValueId append_mlp(BlockBuilder& body, ModelConfig const& config, ValueId in,
                                           std::string_view up, std::string_view down) {
    return body.linear(body.activation(body.linear(in, "up", up), config.activation), "mlp_out", down);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
