// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/config.hpp>

#include <array>
#include <cstdint>
#include <string_view>

/// What `complete` of the families refuses, and the values that many of them derive alike.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Errors  size_overflow
[[nodiscard]] constexpr Result<> check_bounded(std::int64_t size) {
    constexpr auto most = std::int64_t{1} << 31U;
    if (size >= 0 && size <= most) return {};
    return Error{ErrorCode::size_overflow}.because("a size of the model is out of range").got(size).at_most(most);
}

/// Refuses sizes whose products leave 63 bits: every later sum of elements, bits or bytes of the model stays below
/// them.
///
/// Errors  size_overflow
[[nodiscard]] constexpr Result<> check_products(ModelConfig const& config) {
    constexpr std::array members{
        &ModelConfig::vocab_size,        &ModelConfig::hidden_size,
        &ModelConfig::intermediate_size, &ModelConfig::heads,
        &ModelConfig::kv_heads,          &ModelConfig::head_dim,
        &ModelConfig::max_positions,     &ModelConfig::expert_intermediate_size,
        &ModelConfig::experts,           &ModelConfig::shared_expert_intermediate_size,
        &ModelConfig::sliding_window,
    };
    for (auto const member : members) {
        if (auto const checked = check_bounded(config.*member); !checked) return checked;
    }
    auto widest = config.heads * config.head_dim;
    for (auto const size :
         {config.vocab_size, config.hidden_size, config.intermediate_size, config.expert_intermediate_size,
          config.shared_expert_intermediate_size, config.max_positions / 64}) {
        if (size > widest) widest = size;
    }
    // At most four matrices per expert and eight others per layer, none wider than `widest`; 64 bits per element.
    std::int64_t product = 64;
    for (auto const factor : {config.hidden_size, widest, config.layers, 4 * (config.experts + 2)}) {
        auto const next = checked_multiply(product, factor);
        if (!next) {
            return Error{ErrorCode::size_overflow}
                .because("the model's size does not fit into 63 bits")
                .fix("check its sizes");
        }
        product = *next;
    }
    return {};
}

/// Config keys and rules that every decoder shares are checked here: positive sizes, divisible heads, bounded layers.
[[nodiscard]] constexpr Result<> check_heads(ModelConfig const& config, bool is_head_dim_given) {
    auto const positive = [](std::int64_t size, std::string_view key) -> Result<> {
        if (size >= 1) return {};
        return Error{ErrorCode::invalid_field}.at(key).because("must be at least 1").got(size);
    };
    if (auto const ok = positive(config.vocab_size, "vocab_size"); !ok) return ok;
    if (auto const ok = positive(config.hidden_size, "hidden_size"); !ok) return ok;
    if (auto const ok = positive(config.intermediate_size, "intermediate_size"); !ok) return ok;
    if (auto const ok = positive(config.heads, "num_attention_heads"); !ok) return ok;
    if (auto const ok = positive(config.kv_heads, "num_key_value_heads"); !ok) return ok;
    if (auto const ok = positive(config.layers, "num_hidden_layers"); !ok) return ok;
    if (config.layers > LayerSet::capacity) {
        return Error{ErrorCode::capacity_exceeded}
            .at("num_hidden_layers")
            .because("is more than this library plans for")
            .got(config.layers)
            .at_most(LayerSet::capacity);
    }
    if (!is_head_dim_given && config.hidden_size % config.heads != 0) {
        return Error{ErrorCode::invalid_field}
            .at("hidden_size")
            .because("is not a multiple of num_attention_heads, and head_dim is not given")
            .got(config.hidden_size)
            .multiple_of(config.heads);
    }
    if (config.heads % config.kv_heads != 0) {
        return Error{ErrorCode::invalid_field}
            .at("num_key_value_heads")
            .because("does not divide num_attention_heads")
            .got(config.kv_heads)
            .divisor_of(config.heads);
    }
    return check_products(config);
}

/// Absent kv heads are the query heads, an absent head_dim is hidden / heads; then the sizes are checked.
[[nodiscard]] constexpr Result<> complete_heads(ModelConfig& config) {
    bool const is_head_dim_given = config.head_dim > 0;
    if (config.kv_heads == 0) config.kv_heads = config.heads;
    if (auto const checked = check_heads(config, is_head_dim_given); !checked) return checked;
    if (!is_head_dim_given) config.head_dim = config.hidden_size / config.heads;
    return {};
}

/// Makes local_layers the truth: none without a window; what layer_types said where it is given; else the layers for
/// which slides(layer) holds. Call it when the number of layers is checked.
///
/// Errors  invalid_field where layer_types has another length than the model has layers
template <class Slides>
[[nodiscard]] constexpr Result<> complete_windows(ModelConfig& config, Slides slides) {
    if (config.layer_types_count != 0 && config.layer_types_count != config.layers) {
        return Error{ErrorCode::invalid_field}
            .at("layer_types")
            .because("does not have one entry per layer")
            .got(config.layer_types_count)
            .expected(config.layers);
    }
    if (config.sliding_window == 0) {
        config.local_layers = {};
    } else if (config.layer_types_count == 0) {
        config.local_layers = {};
        for (std::int64_t layer = 0; layer < config.layers; ++layer) {
            if (slides(layer)) config.local_layers.insert(layer);
        }
    }
    return {};
}

/// The same where each n-th layer sees everything; n is the family's own sliding_window_pattern, or `usual` where that is none.
[[nodiscard]] constexpr Result<> complete_window_pattern(ModelConfig& config, std::int64_t usual) {
    if (config.own["sliding_window_pattern"] < 1) config.own.set("sliding_window_pattern", usual);
    auto const pattern = config.own["sliding_window_pattern"];
    return complete_windows(config, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
}

/// No layer has a window, whatever the config says.
constexpr void leave_out_windows(ModelConfig& config) {
    config.sliding_window = config.layer_types_count = 0;
    config.local_layers = {};
}

/// Makes rope_free_layers the truth: what no_rope_layers said where it is given, else every rope_free_interval-th layer.
///
/// Errors  invalid_field where no_rope_layers has another length than the model has layers, or the interval is below 1
[[nodiscard]] constexpr Result<> complete_rope_free_layers(ModelConfig& config) {
    if (config.rope_list_count != 0) {
        config.rope_free_interval = 0;
        if (config.rope_list_count == config.layers) return {};
        return Error{ErrorCode::invalid_field}
            .at("no_rope_layers")
            .because("does not have one entry per layer")
            .got(config.rope_list_count)
            .expected(config.layers);
    }
    auto const interval = config.rope_free_interval;
    if (interval < 1) {
        return Error{ErrorCode::invalid_field}.at("no_rope_layer_interval").because("must be at least 1").got(interval);
    }
    config.rope_free_layers = {};
    for (auto layer = interval - 1; layer < config.layers; layer += interval) config.rope_free_layers.insert(layer);
    return {};
}

/// Makes rope_free_layers the layers without a window. Call it when windows are completed.
constexpr void turn_windows_only(ModelConfig& config) {
    config.rope_free_layers = {};
    for (std::int64_t layer = 0; layer < config.layers; ++layer)
        if (!config.local_layers.contains(layer)) config.rope_free_layers.insert(layer);
}

/// Refuses impossible numbers of experts.
///
/// Errors  invalid_field, capacity_exceeded
[[nodiscard]] constexpr Result<> check_experts(ModelConfig const& config) {
    constexpr std::int64_t most = 1 << 16;
    if (config.experts < 1) {
        return Error{ErrorCode::invalid_field}.at("num_experts").because("must be at least 1").got(config.experts);
    }
    if (config.experts > most) {
        return Error{ErrorCode::capacity_exceeded}
            .at("num_experts")
            .because("is more than this library plans for")
            .got(config.experts)
            .at_most(most);
    }
    if (config.experts_per_token < 1 || config.experts_per_token > config.experts) {
        return Error{ErrorCode::invalid_field}
            .at("num_experts_per_tok")
            .because("must be between 1 and the number of experts")
            .got(config.experts_per_token)
            .between(1, config.experts);
    }
    if (config.expert_intermediate_size < 1) {
        return Error{ErrorCode::invalid_field}
            .at("moe_intermediate_size")
            .because("must be at least 1")
            .got(config.expert_intermediate_size);
    }
    return {};
}

/// The elements of a head that are rotated: as a GGUF file states them, which then decides partial_rotary_factor, else
/// head_dim * partial_rotary_factor, cut to an integer.
///
/// Errors  invalid_field, which names the key of the factor
[[nodiscard]] constexpr Result<> derive_rotary_dim(ModelConfig& config, std::string_view key) {
    auto& factor = config.rope.partial_rotary_factor;
    auto const head_dim = static_cast<double>(config.head_dim);
    if (config.rotary_dim == 0) {
        if (!(factor > 0.0 && factor <= 1.0)) {
            return Error{ErrorCode::invalid_field}.at(key).because("is not within (0, 1]");
        }
        config.rotary_dim = static_cast<std::int64_t>(head_dim * factor);
        return {};
    }
    if (config.rotary_dim < 0 || config.rotary_dim > config.head_dim) {
        return Error{ErrorCode::invalid_field}
            .at("rope.dimension_count")
            .because("is more than a head has")
            .got(config.rotary_dim)
            .at_most(config.head_dim);
    }
    factor = static_cast<double>(config.rotary_dim) / head_dim;
    // Where the quotient was rounded down, the product would be cut to one element less.
    if (static_cast<std::int64_t>(head_dim * factor) < config.rotary_dim)
        factor = (static_cast<double>(config.rotary_dim) + 0.5) / head_dim;
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
