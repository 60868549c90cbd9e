// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/arch/detail/config_checks.hpp>
#include <shardwise/model/body_builder.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/program_builder.hpp>

#include <cstdint>
#include <initializer_list>
#include <string_view>

/// The pieces that most families share: linear layers, norms, embeddings.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// True where the counted class is the bare model without a head ("LlamaModel", "BertModel").
[[nodiscard]] constexpr bool is_base_class(ModelConfig const& config) {
    auto const name = config.model_class.view();
    return name.size() >= 5 && name.substr(name.size() - 5) == "Model";
}

/// Builds tensors in the model's dtype.
struct TensorMaker {
    Dtype dtype;

    /// A linear weight [out, in] whose outputs are sharded in `units` (0: replicated).
    [[nodiscard]] constexpr Tensor weight(std::int64_t out, std::int64_t in, ShardRule shard,
                                          TensorUse use = TensorUse::linear) const {
        return {.name = "weight", .shape = {out, in}, .dtype = dtype, .use = use, .shard = shard};
    }
    [[nodiscard]] constexpr Tensor bias(std::int64_t size, ShardRule shard = {}) const {
        return {.name = "bias", .shape = {size}, .dtype = dtype, .use = TensorUse::bias, .shard = shard};
    }
    [[nodiscard]] constexpr Tensor norm(std::int64_t size) const {
        return {.name = "weight", .shape = {size}, .dtype = dtype, .use = TensorUse::norm};
    }
    [[nodiscard]] constexpr Tensor norm_bias(std::int64_t size) const {
        return {.name = "bias", .shape = {size}, .dtype = dtype, .use = TensorUse::norm};
    }
    /// A table [entries, width], sharded by entries when it is a vocabulary.
    [[nodiscard]] constexpr Tensor table(std::int64_t entries, std::int64_t width, ShardRule shard = {},
                                         TensorUse use = TensorUse::embedding) const {
        return {.name = "weight", .shape = {entries, width}, .dtype = dtype, .use = use, .shard = shard};
    }
};

/// Adds the modules that most families consist of.
class PartMaker {
public:
    constexpr PartMaker(ModuleTree& tree, Dtype dtype) : tree_(tree), make_{dtype} {}

    [[nodiscard]] constexpr TensorMaker const& tensors() const { return make_; }

    /// nn.Linear; `shard` is the weight's rule, the bias follows it when the outputs are sharded.
    constexpr ModuleId linear(std::int64_t out, std::int64_t in, bool has_bias, ShardRule shard = {},
                              TensorUse use = TensorUse::linear) {
        auto const weight = make_.weight(out, in, shard, use);
        if (!has_bias) return tree_.add("Linear", {weight});
        return tree_.add("Linear", {weight, make_.bias(out, shard.dim == 0 ? shard : ShardRule{})});
    }
    /// A norm over a sharded value (olmo2 normalises all heads together): its weight is sharded as the value is.
    constexpr ModuleId sharded_norm(std::string_view class_name, std::int64_t size, ShardRule shard) {
        auto weight = make_.norm(size);
        weight.shard = shard;
        return tree_.add(class_name, {weight});
    }
    /// A norm of each head with a weight [heads, head_dim], sharded by heads.
    constexpr ModuleId norm_of_heads(std::string_view class_name, std::int64_t heads, std::int64_t head_dim,
                                     ShardRule shard) {
        auto weight = make_.norm(head_dim);
        weight.shape = {heads, head_dim};
        weight.shard = shard;
        return tree_.add(class_name, {weight});
    }
    /// A norm with a weight, and a bias where asked.
    constexpr ModuleId norm(std::string_view class_name, std::int64_t size, bool has_bias = false) {
        if (!has_bias) return tree_.add(class_name, {make_.norm(size)});
        return tree_.add(class_name, {make_.norm(size), make_.norm_bias(size)});
    }
    /// nn.Embedding over the vocabulary, sharded by entries.
    constexpr ModuleId vocabulary(std::int64_t entries, std::int64_t width, std::string_view class_name = "Embedding") {
        return tree_.add(class_name, {make_.table(entries, width, ShardRule::units(0, entries))});
    }
    /// nn.Embedding over positions or types, held by every rank.
    constexpr ModuleId table(std::int64_t entries, std::int64_t width, std::string_view class_name = "Embedding") {
        return tree_.add(class_name, {make_.table(entries, width, {}, TensorUse::side_table)});
    }
    /// A module of a tensor of its own.
    constexpr ModuleId add(std::string_view class_name, std::initializer_list<Tensor> tensors) {
        return tree_.add(class_name, tensors);
    }
    /// A module without tensors: an activation, a dropout.
    constexpr ModuleId plain(std::string_view class_name) { return tree_.add(class_name, {}, {}); }
    /// A module of an activation; xielu's has four numbers, in bf16 whatever the model's dtype.
    constexpr ModuleId activation(std::string_view class_name, ActivationKind kind) {
        if (kind != ActivationKind::xielu) return plain(class_name);
        auto const number = [](std::string_view tensor_name, Shape const& shape, TensorKind tensor_kind) {
            return Tensor{.name = tensor_name, .shape = shape, .dtype = Dtype::bf16, .kind = tensor_kind};
        };
        return tree_.add(class_name,
                         {number("alpha_p", {1}, TensorKind::parameter), number("alpha_n", {1}, TensorKind::parameter),
                          number("beta", {}, TensorKind::buffer), number("eps", {}, TensorKind::buffer)});
    }
    /// A rotary embedding with its fp32 inverse frequencies, which checkpoints do not store.
    constexpr ModuleId rotary(std::string_view class_name, std::int64_t rotary_dim) {
        return tree_.add(class_name, {Tensor{.name = "inv_freq",
                                             .shape = {(rotary_dim + 1) / 2},
                                             .dtype = Dtype::f32,
                                             .kind = TensorKind::transient_buffer}});
    }
    /// A class name made of the family's prefix and a common suffix ("Llama" + "Attention").
    constexpr std::string_view name(std::string_view prefix, std::string_view suffix) {
        return tree_.names().join(prefix, suffix);
    }

private:
    ModuleTree& tree_;
    TensorMaker make_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
