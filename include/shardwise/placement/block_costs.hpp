// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/block_program.hpp>
#include <shardwise/placement/sequence_builder.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a block adds to the unit that holds its first parameters.
///
/// Units  state and workspace in bytes; flops, traffic (without weights) and output in bytes per step
struct BlockCost {
    Bytes state{};
    Bytes workspace{};
    double flops = 0.0;
    /// Of the weights, the share that one step reads: below 1 where only chosen experts run.
    double weights_read = 1.0;
    double traffic = 0.0;
    double output = 0.0;
};

namespace detail {

constexpr void add_cost(PlacementUnit& unit, BlockCost const& cost) {
    unit.state += cost.state;
    if (cost.workspace > unit.workspace) unit.workspace = cost.workspace;
    unit.flops += cost.flops;
    unit.traffic += static_cast<double>(unit.weights.count()) * cost.weights_read + cost.traffic;
    unit.output = cost.output;
}

/// True where `path` is "<list>.<number>" or lies below it.
[[nodiscard]] constexpr bool is_in_layer(std::string_view path, std::string_view list, std::int64_t number) {
    if (path.size() <= list.size() || !is_prefix(list, path)) return false;
    auto rest = list.empty() ? path : path.substr(list.size() + 1);
    return parse_number(rest.substr(0, rest.find('.'))) == number;
}

}  // namespace detail

/// Prices every unit by the program: `cost(block)` is asked once per run of equal layers. A unit without a block costs only
/// its memory; a unit with several (embedding and a tied head) adds them up.
template <class Cost>
constexpr void attach_blocks(ModuleSequence& sequence, BlockProgram const& program, Cost cost) {
    auto& units = sequence.units;
    std::size_t hint = 0;
    auto const attach = [&](auto matches, BlockCost const& price) {
        for (std::size_t k = 0; k < units.size(); ++k) {
            auto const i = hint + k < units.size() ? hint + k : hint + k - units.size();
            if (!matches(units[i].path)) continue;
            detail::add_cost(units[i], price);
            hint = i;
            return;
        }
        for (auto const& tied : sequence.tied) {
            if (!matches(tied.path)) continue;
            auto& unit = units[static_cast<std::size_t>(tied.unit)];
            detail::add_cost(unit, price);
            return;
        }
    };
    for (auto const& block : program.blocks()) {
        BlockCost const price = cost(block);
        for (std::int32_t k = 0; k < block.count; ++k) {
            if (block.is_numbered) {
                attach([&](std::string_view path) { return detail::is_in_layer(path, block.module, block.first + k); }, price);
            } else {
                attach([&](std::string_view path) { return detail::is_prefix(block.module, path); }, price);
            }
        }
    }
    // A unit without a block hands on what it was given.
    double output = 0.0;
    for (auto& unit : units) {
        if (unit.output > 0.0) output = unit.output;
        if (unit.output <= 0.0) unit.output = output;
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
