// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/files/tensor_names_tree.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The formats in which products, and the table of words, are held, by their weights' names; of tied names by the first.
using HeldProducts = std::map<std::string, HeldFormat, std::less<>>;

namespace detail {

/// What a parameter is to the operation that reads it first.
struct ParameterReader {
    Operation const* operation = nullptr;
    std::size_t slot = 0;
    bool is_in_layer = false;
    /// It makes the logits.
    bool is_head = false;

    /// Whether a base may hold the parameter in a format of its own: weights of products in layers, the table of words and the head.
    [[nodiscard]] bool may_be_held() const {
        if (slot != 0) return false;
        bool const is_table = operation->kind == OpKind::embedding && operation->table().index == TableIndex::token;
        bool const is_product = operation->kind == OpKind::linear && is_in_layer;
        return is_table || is_head || (is_product && !operation->parameters[0].starts_with('/'));
    }
};
using ParameterReaders = std::map<std::string, ParameterReader, std::less<>>;

[[nodiscard]] inline ParameterReaders parameter_readers(Model const& model) {
    ParameterReaders out;
    auto const& blocks = model.program.blocks();
    for (auto const& block : blocks) {
        auto const& body = model.program.body(block);
        bool const is_last = &block + 1 == blocks.end();
        for (std::int32_t layer = 0; layer < block.count; ++layer) {
            auto const prefix = block_path(block, layer);
            for (auto const& op : body.operations()) {
                bool const is_head = is_last && op.kind == OpKind::linear && &op == &body.operations().back();
                for (std::size_t slot = 0; slot < op.parameters.size(); ++slot) {
                    if (!op.parameters[slot].empty())
                        out.emplace(parameter_name(prefix, op.parameters[slot], 0),
                                    ParameterReader{&op, slot, block.is_numbered, is_head});
                }
            }
        }
    }
    return out;
}

[[nodiscard]] constexpr bool is_packed(WeightFormat format) {
    return traits(format).block_elements != 1 || traits(format).scales != ScalePlace::none;
}

}  // namespace detail

namespace detail {

/// held_products of parameters that `find(name)` gives.
template <class Find>
[[nodiscard]] Result<HeldProducts> held_products_of(Model const& model, bool is_gguf,
                                                    Optional<QuantScheme> const& quant, Find const& find) {
    HeldProducts out;
    LoadOptions options;
    options.quant = quant;
    for (auto const& [name, reader] : parameter_readers(model)) {
        if (!reader.may_be_held()) continue;
        Result<StoredParameter> const found = find(name);
        if (!found) return found.error();
        // Such a table or head is refused where it is loaded, if it is packed.
        if (!reader.is_in_layer && (found->tensor->is_transposed || found->tensor->shape.rank() != 2)) continue;
        auto const held = held_format(*found, model, options);
        if (!held) return held.error();
        bool const is_own = is_gguf || !found->packed.empty() || is_packed(held->format) ||
                            *held != HeldFormat{found->format, found->group};
        if (!is_own || (!reader.is_in_layer && held->format == WeightFormat::f32)) continue;
        auto const [place, is_new] = out.emplace(found->name, *held);
        if (!is_new && place->second != *held)
            return Error{ErrorCode::unsupported}.in(name).because("is held in two formats, of which a base has one");
    }
    return out;
}

}  // namespace detail

/// What of a checkpoint the base of an adapter holds in formats of its own, decoded for each product: of the products of layers those that
/// are packed, those that `quant` packs, as `run` does, and of GGUF files all, whose rows may lie in another order. By the same rule the
/// head and the table of words, whose rows are decoded as they are looked up, but for those of float32. All else of a base is float32.
///
/// Errors  as StoredParameters::find and held_format; unsupported for a table that is the head, too, in another format
[[nodiscard]] inline Result<HeldProducts> held_products(StoredParameters const& stored,
                                                        Optional<QuantScheme> const& quant = {}) {
    return detail::held_products_of(stored.model(), stored.is_gguf(), quant,
                                    [&stored](std::string_view name) { return stored.find(name); });
}

/// The same of a model whose files are not at hand: of safetensors of its config's dtype, with a head of its own where no weights are tied.
///
/// Errors  the same; unsupported for a model that is published packed, whose files say how
[[nodiscard]] inline Result<HeldProducts> held_products(Model const& model, Optional<QuantScheme> const& quant = {}) {
    if (model.config.quant)
        return Error{ErrorCode::unsupported}
            .in(model.config.model_type.view())
            .because("is published packed, in formats that its files say")
            .fix("name a folder with its weights");
    TreeTensors const tensors(model.tree);
    auto const find = [&](std::string_view name) -> Result<StoredParameter> {
        auto const set = tensors.find(name);
        if (!set) return Error{ErrorCode::unknown_name}.in(name).because("is no parameter of the model");
        StoredParameter out;
        out.tensor = set->tensor;
        out.name = name;
        for (auto const& tie : model.tree.ties()) {
            if (tie.other == name) out.name = tie.first;
        }
        out.format = weight_format(set->tensor->dtype).value_or(WeightFormat::f32);
        return out;
    };
    return detail::held_products_of(model, false, quant, find);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
