// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/literal.hpp>
#include <shardwise/core/shape.hpp>
#include <shardwise/core/tensor_use.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a weight does in its block, as far as llama.cpp's mixtures of types tell weights apart.
enum class WeightRole : std::uint8_t {
    other,
    token_embedding,
    side_table,     // positions, token types: small tables that stay in float
    relative_bias,  // t5's table of relative positions
    output,         // makes the logits
    attention_q,
    attention_k,
    attention_v,
    attention_qkv,  // the three in one matrix
    attention_kv_b,
    attention_output,
    ffn_up,  // also gate and up in one matrix
    ffn_gate,
    ffn_down,
    router,
};

/// What a quantisation scheme asks of one tensor before it decides how to store it. The defaults are those of a linear
/// weight [out, in] inside a block, so that shape, dtype and use suffice for schemes that do not mix by role.
struct Weight {
    Shape shape;
    /// Its dtype before packing.
    Dtype dtype = Dtype::bf16;
    TensorUse use = TensorUse::linear;
    WeightRole role = WeightRole::other;
    /// The block that it belongs to, counted over the model.
    std::int64_t layer = 0;
    /// False for linear weights outside the repeated blocks (opt's projections, bert's pooler).
    bool in_block = true;
    /// True for the weights of experts, one [out, in] each or all of a layer in one three-dimensional tensor.
    bool is_expert = false;
    /// True where torch stores [in, out]: gpt2's Conv1D, gpt_oss's experts.
    bool is_transposed = false;
    /// False where no nn.Linear holds it (a router that is a bare parameter): bitsandbytes and fp8 replace such modules
    /// only.
    bool in_linear_module = true;

    /// Extents without leading ones: how many dimensions ggml counts.
    [[nodiscard]] constexpr std::size_t dimensions() const {
        std::size_t leading = 0;
        while (leading < shape.rank() && shape[leading] == 1) ++leading;
        return shape.rank() - leading;
    }
    /// The length of the dimension that products sum over; for less than two dimensions the last one.
    [[nodiscard]] constexpr std::int64_t inputs() const {
        if (shape.rank() == 0) return 1;
        return shape[shape.rank() - (is_transposed && shape.rank() >= 2 ? 2 : 1)];
    }
    /// The number of results of one matrix.
    [[nodiscard]] constexpr std::int64_t outputs() const {
        if (shape.rank() < 2) return 1;
        return shape[shape.rank() - (is_transposed ? 1 : 2)];
    }
};

namespace detail {

struct NamedRole {
    std::string_view module;
    /// The module around it; empty: any.
    std::string_view parent;
    WeightRole role = WeightRole::other;
    char first_letter = ' ';

    constexpr NamedRole() = default;
    constexpr NamedRole(Literal name, Literal around, WeightRole meaning)
        : module(name), parent(around), role(meaning), first_letter(module.front()) {}
};

/// Names of modules in transformers 4.57's families and of tensors in GGUF files (llama.cpp gguf-py tensor_mapping.py).
inline constexpr std::array named_roles{
    NamedRole{"token_embd", "", WeightRole::token_embedding},
    NamedRole{"embed_tokens", "", WeightRole::token_embedding},
    NamedRole{"wte", "", WeightRole::token_embedding},
    NamedRole{"word_embeddings", "", WeightRole::token_embedding},
    NamedRole{"embed_in", "", WeightRole::token_embedding},
    NamedRole{"shared", "", WeightRole::token_embedding},
    NamedRole{"position_embd", "", WeightRole::side_table},
    NamedRole{"token_types", "", WeightRole::side_table},
    NamedRole{"wpe", "", WeightRole::side_table},
    NamedRole{"embed_positions", "", WeightRole::side_table},
    NamedRole{"position_embeddings", "", WeightRole::side_table},
    NamedRole{"token_type_embeddings", "", WeightRole::side_table},
    NamedRole{"attn_rel_b", "", WeightRole::relative_bias},
    NamedRole{"relative_attention_bias", "", WeightRole::relative_bias},
    NamedRole{"output", "", WeightRole::output},
    NamedRole{"lm_head", "", WeightRole::output},
    NamedRole{"embed_out", "", WeightRole::output},
    NamedRole{"decoder", "", WeightRole::output},
    NamedRole{"attn_q", "", WeightRole::attention_q},
    NamedRole{"q_proj", "", WeightRole::attention_q},
    NamedRole{"query", "", WeightRole::attention_q},
    NamedRole{"q", "", WeightRole::attention_q},
    NamedRole{"attn_k", "", WeightRole::attention_k},
    NamedRole{"k_proj", "", WeightRole::attention_k},
    NamedRole{"key", "", WeightRole::attention_k},
    NamedRole{"k", "", WeightRole::attention_k},
    NamedRole{"attn_v", "", WeightRole::attention_v},
    NamedRole{"v_proj", "", WeightRole::attention_v},
    NamedRole{"value", "", WeightRole::attention_v},
    NamedRole{"v", "", WeightRole::attention_v},
    NamedRole{"attn_qkv", "", WeightRole::attention_qkv},
    NamedRole{"qkv_proj", "", WeightRole::attention_qkv},
    NamedRole{"query_key_value", "", WeightRole::attention_qkv},
    NamedRole{"c_attn", "", WeightRole::attention_qkv},
    NamedRole{"attn_kv_b", "", WeightRole::attention_kv_b},
    NamedRole{"kv_b_proj", "", WeightRole::attention_kv_b},
    NamedRole{"attn_output", "", WeightRole::attention_output},
    NamedRole{"o_proj", "", WeightRole::attention_output},
    NamedRole{"out_proj", "", WeightRole::attention_output},
    NamedRole{"o", "", WeightRole::attention_output},
    NamedRole{"c_proj", "attn", WeightRole::attention_output},
    NamedRole{"dense", "self_attn", WeightRole::attention_output},
    NamedRole{"dense", "self_attention", WeightRole::attention_output},
    NamedRole{"dense", "attention", WeightRole::attention_output},
    NamedRole{"ffn_up", "", WeightRole::ffn_up},
    NamedRole{"up_proj", "", WeightRole::ffn_up},
    NamedRole{"gate_up_proj", "", WeightRole::ffn_up},
    NamedRole{"w3", "", WeightRole::ffn_up},
    NamedRole{"wi", "", WeightRole::ffn_up},
    NamedRole{"wi_1", "", WeightRole::ffn_up},
    NamedRole{"fc1", "", WeightRole::ffn_up},
    NamedRole{"c_fc", "", WeightRole::ffn_up},
    NamedRole{"dense_h_to_4h", "", WeightRole::ffn_up},
    NamedRole{"dense", "intermediate", WeightRole::ffn_up},
    NamedRole{"ffn_gate", "", WeightRole::ffn_gate},
    NamedRole{"gate_proj", "", WeightRole::ffn_gate},
    NamedRole{"w1", "", WeightRole::ffn_gate},
    NamedRole{"wi_0", "", WeightRole::ffn_gate},
    NamedRole{"ffn_down", "", WeightRole::ffn_down},
    NamedRole{"down_proj", "", WeightRole::ffn_down},
    NamedRole{"w2", "", WeightRole::ffn_down},
    NamedRole{"wo", "", WeightRole::ffn_down},
    NamedRole{"fc2", "", WeightRole::ffn_down},
    NamedRole{"c_proj", "mlp", WeightRole::ffn_down},
    NamedRole{"dense_4h_to_h", "", WeightRole::ffn_down},
    NamedRole{"dense", "output", WeightRole::ffn_down},
    NamedRole{"ffn_gate_inp", "", WeightRole::router},
    NamedRole{"gate", "", WeightRole::router},
    NamedRole{"router", "", WeightRole::router},
    NamedRole{"shared_expert_gate", "", WeightRole::router},
};

/// The table ordered by the length of the module's name, and where each length begins: constant expressions ask for
/// many roles, and this keeps a search to a few comparisons. A name longer than `longest` does not compile.
struct RolesByLength {
    static constexpr std::size_t longest = 24;
    std::array<NamedRole, named_roles.size()> roles{};
    std::array<std::size_t, longest + 2> first{};
};
[[nodiscard]] constexpr RolesByLength sort_roles() {
    RolesByLength sorted;
    // First how many are shorter than each length, then each to its place.
    for (auto const& role : named_roles) ++sorted.first[role.module.size() + 1];
    for (std::size_t length = 1; length < sorted.first.size(); ++length) sorted.first[length] += sorted.first[length - 1];
    auto next = sorted.first;
    for (auto const& role : named_roles) sorted.roles[next[role.module.size()]++] = role;
    return sorted;
}
inline constexpr RolesByLength roles_by_length = sort_roles();

/// Removes the last dotted component of `path` and returns it.
[[nodiscard]] constexpr std::string_view take_last_component(std::string_view& path) {
    auto const* const text = path.data();
    auto begin = path.size();
    while (begin > 0 && text[begin - 1] != '.') --begin;
    auto const last = path.substr(begin);
    path = path.substr(0, begin > 0 ? begin - 1 : 0);
    return last;
}

[[nodiscard]] constexpr std::string_view without_suffix(std::string_view text, std::string_view suffix) {
    return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

}  // namespace detail

/// The role of a weight by its name in a GGUF file ("blk.3.attn_v.weight") or in transformers' state_dict
/// ("model.layers.3.self_attn.v_proj.weight"); the last three modules of the name suffice. Biases and norms are
/// `other`.
[[nodiscard]] constexpr WeightRole weight_role(std::string_view name) {
    using detail::take_last_component;
    using namespace std::string_view_literals;
    auto module = take_last_component(name);
    if (module == "bias"sv) return WeightRole::other;
    if (module == "weight"sv) module = take_last_component(name);
    if (module.ends_with('s') || module.ends_with('p')) {
        module = detail::without_suffix(module, "_exps"sv);
        module = detail::without_suffix(module, "_shexp"sv);
        module = detail::without_suffix(module, "_blocks"sv);
    }
    if (module.starts_with("cross_attn_"sv)) module.remove_prefix("cross_"sv.size());
    auto const parent = take_last_component(name);
    // bert's `attention.output.dense` closes the attention, its `output.dense` the feed-forward part.
    bool const is_closing = module == "dense"sv && parent == "output"sv;
    if (is_closing && take_last_component(name) == "attention"sv) return WeightRole::attention_output;
    auto const& table = detail::roles_by_length;
    if (module.empty() || module.size() > detail::RolesByLength::longest) return WeightRole::other;
    std::size_t const end = table.first[module.size() + 1];
    for (std::size_t i = table.first[module.size()]; i < end; ++i) {
        auto const& known = table.roles[i];
        if (known.first_letter != module.front()) continue;
        if (module == known.module && (known.parent.empty() || parent == known.parent)) return known.role;
    }
    return WeightRole::other;
}

/// True for the names of expert weights: "...experts.7.up_proj.weight", "blk.3.ffn_up_exps.weight".
[[nodiscard]] constexpr bool is_expert_name(std::string_view name) {
    return name.starts_with("experts.") || name.find(".experts.") != std::string_view::npos ||
           name.find("_exps.") != std::string_view::npos || name.ends_with("_exps");
}

/// True for the classes of modules that bitsandbytes and fp8 replace by packed ones: nn.Linear, its subclasses, Conv1D.
[[nodiscard]] constexpr bool is_linear_class(std::string_view class_name) {
    return class_name.ends_with("Linear") || class_name == "Conv1D";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
