// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/cost/block_demand.hpp>
#include <shardwise/cost/body_weights.hpp>
#include <shardwise/cost/cost_terms.hpp>
#include <shardwise/cost/device_rates.hpp>
#include <shardwise/op/work.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What goes through the model: a prompt, one token of each sequence, or a forward and a backward pass.
enum class Pass : std::uint8_t { prefill, decode, training };

/// What a micro-batch's time in one block depends on beside the block and the device.
struct BlockSetting {
    Pass pass = Pass::decode;
    /// Sequences of the micro-batch on one rank.
    std::int64_t batch = 1;
    RankGroup tp{};
    /// Each of its ranks computes sequences of its own and holds a share of the experts.
    RankGroup ep{};

    friend constexpr bool operator==(BlockSetting const&, BlockSetting const&) = default;
};

/// One micro-batch through one block on its fullest rank.
struct BlockPrice {
    /// In training both passes, and what is computed again.
    CostTerms terms{};
    /// Of `terms`, the backward pass with what is computed again: gradients are reduced during it.
    double backward_seconds = 0.0;
    /// What the block hands to the next one.
    double output_bytes = 0.0;
    /// What the rank holds and trains.
    BodyWeights weights{};
};

namespace detail {

/// Adds up what the operations of one block cost.
class BlockPricer {
public:
    constexpr BlockPricer(BlockDemand const& demand, BlockSetting const& setting, BodyWeights const& weights,
                          DeviceRates const& rates, Efficiency const& efficiency, BlockPolicy const& policy)
        : demand_(demand),
          setting_(setting),
          weights_(weights),
          rates_(rates),
          efficiency_(efficiency),
          policy_(policy) {}

    constexpr BlockPrice price() {
        bool const is_training = setting_.pass == Pass::training;
        bool const is_repeated = is_training && policy_.recompute == Recompute::full;
        CostTerms forward;
        CostTerms backward;
        for (auto const& op : demand_.operations) {
            auto const work = work_of(op);
            auto const once = seconds(work, 1.0, 1.0);
            add(forward, once);
            if (!is_training) continue;
            // Gradients of the inputs and of the weights: twice the products. Weights are read once more, and their
            // gradients are read and written. Frozen products make those of their inputs alone, and a
            // frozen table none.
            auto const weights = op.is_frozen ? weights_of(op.kind) : OpWeights::none;
            if (weights == OpWeights::none)
                add(backward, seconds(work, 2.0, 3.0));
            else if (weights != OpWeights::table)
                add(backward, once);
            bool const is_core = op.kind == OpKind::attention && policy_.recompute == Recompute::selective;
            if (is_core || is_repeated) add(backward, once);
        }
        auto const messages =
            block_messages(demand_.messages, setting_.tp, setting_.ep, rates_.product_bits, efficiency_);
        forward.tensor_parallel += messages.forward;
        forward.expert_parallel += messages.routed;
        if (is_training) {
            backward.tensor_parallel += messages.backward + (is_repeated ? messages.forward : 0.0);
            backward.expert_parallel += messages.routed * (is_repeated ? 2.0 : 1.0);
        }
        BlockPrice price{.terms = forward,
                         .backward_seconds = backward.total(),
                         .output_bytes = demand_.output_bytes,
                         .weights = weights_};
        price.terms += backward;
        return price;
    }

private:
    struct Work {
        double flops = 0.0;
        /// Bytes of activations and cache, and of weights.
        double activations = 0.0;
        double weights = 0.0;
        double packed_elements = 0.0;
        /// Operations, and bytes of activations and cache, per second.
        double rate = 0.0;
        double memory = 0.0;
    };
    struct Seconds {
        double compute = 0.0;
        double memory = 0.0;
        double overhead = 0.0;
    };

    static constexpr void add(CostTerms& terms, Seconds const& seconds) {
        terms.compute += seconds.compute;
        terms.memory += seconds.memory;
        terms.overhead += seconds.overhead;
    }

    constexpr Work work_of(OperationDemand const& op) {
        Work work{.flops = op.flops, .activations = op.bytes, .rate = rates_.products, .memory = rates_.memory};
        switch (unit_of(op.kind)) {
            case OpUnit::products:
                break;
            case OpUnit::attention:
                measure_attention(op, work);
                break;
            case OpUnit::vectors:
                work.rate = rates_.vectors;
                work.activations /= efficiency_.vectors;
                break;
        }
        switch (weights_of(op.kind)) {
            case OpWeights::none:
            case OpWeights::table:
                break;
            case OpWeights::dense:
                if (demand_.dense_elements > 0.0)
                    read_weights(work, op.elements / demand_.dense_elements, weights_.dense, weights_.dense_parameters);
                break;
            case OpWeights::experts:
                if (demand_.expert_elements > 0.0)
                    read_weights(work, touched(op) * op.elements / demand_.expert_elements, weights_.experts,
                                 weights_.expert_parameters);
                break;
        }
        return work;
    }

    /// By what was measured of attention, where somebody did: decoding by the bytes of the cache, a prompt by its operations.
    constexpr void measure_attention(OperationDemand const& op, Work& work) const {
        bool const is_decode = setting_.pass == Pass::decode;
        bool const is_cached = op.kind == OpKind::attention && setting_.pass != Pass::training;
        work.rate *= efficiency_.attention;
        if (is_cached && is_decode && rates_.decode_attention > 0.0) {
            work.memory = rates_.decode_attention;
            work.flops = 0.0;
        } else if (is_cached && !is_decode && rates_.prefill_attention > 0.0) {
            work.rate = rates_.prefill_attention;
            work.activations = 0.0;
        }
    }

    /// Reads a share of so many bytes of weights, and unpacks them where they are narrower than what products take.
    constexpr void read_weights(Work& work, double share, double bytes, double elements) const {
        work.weights = share * bytes;
        // Scales beside them stay wide.
        if (8.0 * bytes < 0.9 * rates_.product_bits * elements) work.packed_elements = share * elements;
    }

    /// The share of the experts that some token of the group chooses, where all are chosen alike.
    constexpr double touched(OperationDemand const& op) {
        if (op.experts <= 0) return 1.0;
        if (op.experts == experts_ && op.experts_per_token == experts_per_token_) return touched_;
        auto missed = 1.0;
        auto base = 1.0 - static_cast<double>(op.experts_per_token) / static_cast<double>(op.experts);
        for (auto tokens = demand_.tokens * setting_.ep.ranks; tokens > 0; tokens /= 2) {
            if (tokens % 2 == 1) missed *= base;
            base *= base;
        }
        experts_ = op.experts;
        experts_per_token_ = op.experts_per_token;
        touched_ = 1.0 - missed;
        return touched_;
    }

    /// Arithmetic and memory side by side: the longer one, and of the shorter one what is not hidden.
    constexpr Seconds seconds(Work const& work, double passes, double weight_passes) const {
        auto const computing = work.rate > 0.0 ? passes * work.flops / work.rate : 0.0;
        auto const bytes = passes * work.activations + weight_passes * work.weights;
        auto const moving = work.memory > 0.0 ? bytes / work.memory : 0.0;
        bool const is_bound_by_memory = computing < moving;
        Seconds terms;
        terms.compute = (is_bound_by_memory ? efficiency_.unhidden : 1.0) * computing;
        terms.memory = (is_bound_by_memory ? 1.0 : efficiency_.unhidden) * moving;
        if (rates_.vectors > 0.0)
            terms.compute += efficiency_.unpack_operations * work.packed_elements / rates_.vectors;
        terms.overhead = passes * rates_.kernel_seconds;
        return terms;
    }

    BlockDemand const& demand_;
    BlockSetting const& setting_;
    BodyWeights const& weights_;
    DeviceRates const& rates_;
    Efficiency const& efficiency_;
    BlockPolicy policy_;
    /// What was touched last, and of how many experts.
    double touched_ = 1.0;
    std::int64_t experts_ = 0;
    std::int64_t experts_per_token_ = 0;
};

}  // namespace detail

/// Prices what one micro-batch asks for in a block; `demand` is that of as many tensor-parallel ranks as `setting` has.
///
/// Units  seconds
[[nodiscard]] constexpr BlockPrice block_price(BlockDemand const& demand, BlockSetting const& setting,
                                               BodyWeights const& weights, DeviceRates const& rates,
                                               BlockPolicy const& policy = {},
                                               Efficiency const& efficiency = default_efficiency) {
    return detail::BlockPricer(demand, setting, weights, rates, efficiency, policy).price();
}

/// Prices one micro-batch through a block that runs `body` on the fullest of its ranks.
///
/// Units  seconds
[[nodiscard]] constexpr BlockPrice block_price(BlockBody const& body, Step const& step, BlockSetting const& setting,
                                               BodyWeights const& weights, DeviceRates const& rates,
                                               BlockPolicy const& policy = {},
                                               Efficiency const& efficiency = default_efficiency) {
    return block_price(block_demand(body, step, setting.tp.ranks, weights.dealt_tables > 0.0, policy), setting, weights,
                       rates, policy, efficiency);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
