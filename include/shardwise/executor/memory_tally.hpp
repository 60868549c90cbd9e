// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/multiply.hpp>
#include <shardwise/backend/host/packed_weight.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/held_weight_bytes.hpp>
#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/parallel/detail/product_tree.hpp>
#include <shardwise/parallel/detail/tree_plan.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/weight_slice.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The format in which a rank holds a parameter.
struct ParameterFormat {
    WeightFormat format = WeightFormat::f32;
    std::int64_t group = 0;
    /// True where every rank holds the whole table.
    bool is_replicated = false;
};

namespace detail {

/// Where an operation is counted: its block as the rank has it, and what the rank makes room for.
struct CountedBlock {
    Model const& model;
    BlockBody const& body;
    BlockCut const& cut;
    TensorPlace place;
    TensorPlace experts;
    ExecutorLimits const& limits;
    IsaLevel isa = IsaLevel::portable;

    [[nodiscard]] Value const& value(ValueId id) const { return body.values()[static_cast<std::size_t>(id)]; }
    [[nodiscard]] InputPieces const& pieces(ValueId id) const { return *cut.pieces[static_cast<std::size_t>(id)]; }
};

/// The format of weights that lie as a device's activations do.
template <ComputeBackend Backend>
[[nodiscard]] WeightFormat format_of_activations(CountedBlock const& block) {
    return visit_activations<Backend>(block.limits.activations,
                                      [](auto element) { return format_of_rows<decltype(element)>; });
}

/// What operations take of a rank's memory once they are loaded.
///
/// Units  bytes
struct MemoryTally {
    std::int64_t weights = 0;
    /// Of the weights what products read.
    std::int64_t packed = 0;
    std::int64_t cache = 0;
    /// The most that any product needs of the memory in which it prepares its input, or of the vendor's workspace.
    std::int64_t prepared = 0;
    /// What one allocation is a multiple of.
    std::int64_t grain = 1;
    /// The formats of what products and tables hold, in which kernels read it.
    std::vector<WeightFormat> formats;

    /// One allocation among the weights.
    void add_weights(std::int64_t bytes) { weights += round_up(bytes, grain); }
    /// A vector in fp32 for each of some weights, where the operation has it.
    void add_vector(Operation const& op, std::size_t slot, std::int64_t elements, std::int64_t layers = 1) {
        if (!op.parameters[slot].empty()) weights += layers * round_up(4 * elements, grain);
    }
    /// What products read, in whole allocations.
    void add_packed(std::int64_t bytes) {
        weights += bytes;
        packed += bytes;
    }

    /// What an operation keeps of sequences.
    ///
    /// Errors  size_overflow
    [[nodiscard]] Result<> add_cache(CountedBlock const& block, Operation const& op) {
        auto const layer = cached_layer(op, block.cut);
        if (!layer) return {};
        auto const bytes = kv_layer_bytes(*layer, kv_capacity(block.limits), grain);
        if (!bytes) return Error{ErrorCode::size_overflow}.in("kv cache").at("context").got(block.limits.context);
        cache += bytes->count();
        return {};
    }

    /// The product of `layers` weights as ColumnLinear and RowLinear hold them, each with at most `rows` rows at a time.
    ///
    /// Errors  size_overflow; unsupported for a format that the back end does not multiply by
    template <ComputeBackend Backend, ReductionPolicy Policy>
    [[nodiscard]] Result<> add_product(CountedBlock const& block, Operation const& op, ParameterFormat held,
                                       std::int64_t layers, std::int64_t rows) {
        auto const kernel = product_kernel(held.format, block.isa, block.limits.product_activations);
        auto const hold = [&](std::int64_t outputs, std::int64_t inputs, std::int64_t row_bytes) -> Result<> {
            if (outputs == 0 || inputs == 0) return {};
            auto const bytes = held_weight_bytes<Backend>(held.format, outputs, inputs, held.group);
            if (!bytes) return bytes.error();
            add_packed(layers * bytes->count());
            if (layers > 0) formats.push_back(format_held<Backend>(held.format, inputs, held.group));
            if constexpr (HasHostMemory<Backend>) {
                prepared = std::max(prepared, prepared_buffer_bytes(kernel, row_bytes, rows));
            } else if (!Policy::has_fixed_tree && rows > Backend::max_own_rows &&
                       format_held<Backend>(held.format, inputs, held.group) == format_of_activations<Backend>(block)) {
                // The vendor's product, which has a workspace.
                prepared = std::max(prepared, Backend::product_workspace().count());
            }
            return {};
        };
        if (block.value(op.output).spread != Spread::partial) {
            auto const own = block.cut.width(op.output);
            add_vector(op, 1, own, layers);
            return hold(own, op.in_features, prepared_row_bytes(kernel, UnitRange{0, op.in_features}));
        }
        add_vector(op, 1, op.out_features, layers);
        auto const& pieces = block.pieces(op.inputs[0]);
        auto const& place = block.place;
        auto const own = pieces.inputs_of_rank(place.ranks, place.rank).size();
        if (!Policy::has_fixed_tree || own == 0)
            return hold(op.out_features, own, prepared_row_bytes(kernel, UnitRange{0, own}));
        auto const lead = lead_inputs(held.format, pieces, place);
        auto const sums = product_sums(TreePlan(pieces.count, place.ranks, place.rank), pieces, place, lead);
        return hold(op.out_features, lead + own, prepared_row_bytes(kernel, sums));
    }
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
