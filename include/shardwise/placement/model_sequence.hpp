// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/cost/block_work.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/memory/kv_cache.hpp>
#include <shardwise/memory/weights.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/work.hpp>
#include <shardwise/placement/block_costs.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The bytes of a tensor as a request stores it. (A class, so that the builder of sequences is instantiated once.)
struct WeightPricer {
    EstimateRequest const& request;

    [[nodiscard]] constexpr Bytes operator()(Tensor const& tensor, LayerPosition const& position) const {
        return weight_bytes(tensor, position, request);
    }
};

/// The share of a block's weights that one step reads: all of the dense ones, the chosen experts', a table's rows.
[[nodiscard]] constexpr double weights_read(BlockBody const& body, BlockWork const& work) {
    double read = 0.0;
    double held = 0.0;
    for (auto const& op : body.operations()) {
        auto const elements = static_cast<double>(op.in_features) * static_cast<double>(op.out_features);
        switch (weights_of(op.kind)) {
            case OpWeights::none:
                break;
            case OpWeights::dense:
                read += elements, held += elements;
                break;
            case OpWeights::table:
                read += elements * work.table_share, held += elements;
                break;
            case OpWeights::experts:
                held += elements * static_cast<double>(op.routing().experts);
                read += elements * static_cast<double>(op.routing().experts) * work.expert_share;
                break;
        }
    }
    return held > 0.0 ? read / held : 1.0;
}

}  // namespace detail

/// The units of a model as it runs: weights in the request's type, the cache of its context, each block's activations, and
/// the work of one decoding step.
[[nodiscard]] constexpr ModuleSequence build_sequence(Model const& model, EstimateRequest const& asked,
                                                      Span<std::string_view const> no_split,
                                                      Granularity granularity = Granularity::modules) {
    auto const request = as_published(asked, model.config);
    detail::WeightPricer const weigh{request};
    // GGUF types go by a tensor's name and, in mixtures, its layer.
    bool const is_priced_by_place = request.quant && request.quant->is_ggml();
    auto sequence = build_sequence(model.tree, no_split, weigh, granularity,
                                   root_position(model.config, model.tree, model.family), is_priced_by_place);
    auto const step = step_of(Phase::decode, request, model.config);
    auto const chunked = prefill_request(model, request);
    attach_blocks(sequence, model.program, [&](Block const& block) {
        auto const& body = model.program.body(block);
        auto const work = block_work(body, step);
        BlockCost cost;
        cost.state = kv_cache_bytes(body, request, model.config);
        cost.workspace = activation_peak(body, chunked, model.config);
        cost.flops = work.flops;
        cost.weights_read = detail::weights_read(body, work);
        cost.traffic = work.traffic + work.kv_read;
        cost.output = static_cast<double>(work.output.count());
        return cost;
    });
    return sequence;
}

/// The same with the architecture's own no-split classes: a decoder layer is a unit.
[[nodiscard]] constexpr ModuleSequence build_sequence(Model const& model, EstimateRequest const& request) {
    return build_sequence(model, request, model.tree.no_split_classes());
}

/// The units of a bare tree: every tensor in `dtype` where that is given and the tensor is floating, no cache, no activations.
[[nodiscard]] constexpr ModuleSequence build_tree_sequence(ModuleTree const& tree, Optional<Dtype> dtype,
                                                           Span<std::string_view const> no_split,
                                                           Granularity granularity = Granularity::modules) {
    EstimateRequest const request{.dtype = dtype};
    return build_sequence(tree, no_split, detail::WeightPricer{request}, granularity);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
