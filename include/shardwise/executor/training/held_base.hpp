// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/model/architecture.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The formats in which products of layers are held, by their weights' names.
using HeldProducts = std::map<std::string, HeldFormat, std::less<>>;

namespace detail {

/// What a parameter is to the operation that reads it first.
struct ParameterReader {
    Operation const* operation = nullptr;
    BlockBody const* body = nullptr;
    std::size_t slot = 0;
    bool is_in_layer = false;
};
using ParameterReaders = std::map<std::string, ParameterReader, std::less<>>;

[[nodiscard]] inline ParameterReaders parameter_readers(Model const& model) {
    ParameterReaders out;
    for (auto const& block : model.program.blocks()) {
        auto const& body = model.program.body(block);
        for (std::int32_t layer = 0; layer < block.count; ++layer) {
            auto prefix = std::string(block.module);
            if (block.is_numbered) prefix += "." + std::to_string(block.first + layer);
            for (auto const& op : body.operations()) {
                for (std::size_t slot = 0; slot < op.parameters.size(); ++slot) {
                    if (!op.parameters[slot].empty())
                        out.emplace(parameter_name(prefix, op.parameters[slot], 0),
                                    ParameterReader{&op, &body, slot, block.is_numbered});
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

/// Which products of a checkpoint's layers the base of an adapter holds in their own formats, decoded for each product: those that are
/// packed, those that `quant` packs, and of GGUF files all, whose rows may lie in another order. All else of a base is float32.
///
/// Errors  as StoredParameters::find and held_format
[[nodiscard]] inline Result<HeldProducts> held_products(StoredParameters const& stored,
                                                        Optional<QuantScheme> const& quant = {}) {
    HeldProducts out;
    LoadOptions options;
    options.quant = quant;
    for (auto const& [name, reader] : detail::parameter_readers(stored.model())) {
        bool const is_product = reader.operation->kind == OpKind::linear && reader.slot == 0 && reader.is_in_layer;
        if (!is_product || reader.operation->parameters[0].starts_with('/')) continue;
        auto const found = stored.find(name);
        if (!found) return found.error();
        auto const held = held_format(*found, stored.model(), options);
        if (!held) return held.error();
        if (stored.is_gguf() || !found->packed.empty() || detail::is_packed(held->format)) out.emplace(name, *held);
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
