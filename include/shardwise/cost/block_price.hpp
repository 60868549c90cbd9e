#pragma once

#include <shardwise/cost/body_weights.hpp>
#include <shardwise/cost/collective.hpp>
#include <shardwise/cost/cost_terms.hpp>
#include <shardwise/memory/activations.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0 {

/// What a pass through the model does: computes a prompt, one token of each sequence, or a forward and a backward pass.
enum class Pass : std::uint8_t { prefill, decode, training };

/// What a device does per second in this model's types, as programs reach it.
struct DeviceRates {
    /// Of large products, and of everything else.
    double products = 0.0;
    double vectors = 0.0;
    double memory = 0.0;
    double kernel_seconds = 0.0;

    friend constexpr bool operator==(DeviceRates const&, DeviceRates const&) = default;
};

/// A device's rates for products of `dtype`.
[[nodiscard]] constexpr DeviceRates device_rates(Device const& device, Dtype dtype,
                                                 Efficiency const& efficiency = default_efficiency) {
    auto const vectors = device.peak.fp32 > 0.0 ? device.peak.fp32 : device.peak.of(dtype);
    return {.products = device.peak.of(dtype) * efficiency.product,
            .vectors = vectors,
            .memory = device.bandwidth * efficiency.memory,
            .kernel_seconds = device.kind == DeviceKind::cpu ? 0.0 : efficiency.kernel_seconds};
}

/// What a micro-batch's time in one block depends on beside the block.
struct BlockSetting {
    Pass pass = Pass::decode;
    /// Sequences of the micro-batch.
    std::int64_t batch = 1;
    RankGroup tp{};
    RankGroup ep{};

    friend constexpr bool operator==(BlockSetting const&, BlockSetting const&) = default;
};

/// One micro-batch through one block on its fullest rank.
struct BlockPrice {
    /// In training both passes, and what is computed again.
    CostTerms terms{};
    /// Of `terms`, the backward pass with what is computed again: gradients are reduced behind it.
    double backward_seconds = 0.0;
    /// What the block hands to the next one.
    double output_bytes = 0.0;
    /// On the rank: what it holds and trains.
    BodyWeights weights{};
};

namespace detail {

/// Walks one body and adds up what its operations cost.
class BlockPricer {
public:
    constexpr BlockPricer(BlockBody const& body, Step const& step, BlockSetting const& setting,
                          BodyWeights const& weights, DeviceRates const& rates, Efficiency const& efficiency,
                          bool is_sequence_parallel, Recompute recompute)
        : body_(body), setting_(setting), weights_(weights), rates_(rates), efficiency_(efficiency),
          recompute_(recompute),
          context_(op_context(body, step,
                              {.tp = setting.tp.ranks,
                               .is_sequence_parallel = is_sequence_parallel && setting.tp.ranks > 1})) {
        for (auto const& op : body.operations()) {
            auto const elements = elements_of(op);
            if (op.kind == OpKind::linear) dense_elements_ += elements;
            if (op.kind == OpKind::experts) expert_elements_ += elements;
        }
    }

    constexpr BlockPrice price() {
        BlockPrice price;
        price.weights = weights_;
        CostTerms forward;
        CostTerms backward;
        for (auto const& op : body_.operations()) {
            auto const work = work_of(op);
            forward += seconds(op, work, 1.0, 1.0);
            if (setting_.pass != Pass::training) continue;
            // Gradients of the inputs and of the weights: twice the products; weights are read once more and their
            // gradients read and written.
            backward += seconds(op, work, 2.0, 3.0);
            bool const is_core = op.kind == OpKind::attention && recompute_ == Recompute::selective;
            if (is_core || recompute_ == Recompute::full) backward += seconds(op, work, 1.0, 1.0);
        }
        add_messages(forward, backward);
        price.terms = forward;
        price.terms += backward;
        price.backward_seconds = backward.total();
        if (!body_.operations().empty())
            price.output_bytes = static_cast<double>(context_.bytes(body_.operations().back().output).count());
        return price;
    }

private:
    struct Work {
        double flops = 0.0;
        double activations = 0.0;
        double weights = 0.0;
        double rate = 0.0;
    };

    static constexpr double elements_of(Operation const& op) {
        return static_cast<double>(op.in_features) * static_cast<double>(op.out_features);
    }
    /// How full tiles of `extent` are.
    constexpr double fill(double extent) const { return extent / (extent + efficiency_.half_extent); }

    constexpr double product_rate(double m, double n, double k) const {
        return rates_.products * fill(m) * fill(n) * fill(k);
    }

    constexpr Work work_of(Operation const& op) const {
        auto const cost = op_work(op, context_);
        Work work{.flops = cost.flops, .activations = cost.traffic + cost.kv_read, .rate = rates_.vectors};
        auto const& out = context_.value(op.output);
        switch (op.kind) {
            case OpKind::linear: {
                auto const rows = out.rows == Rows::tokens ? context_.step.tokens() : context_.rows(out);
                work.weights = dense_elements_ > 0.0 ? weights_.dense * elements_of(op) / dense_elements_ : 0.0;
                work.rate = product_rate(static_cast<double>(rows), static_cast<double>(context_.columns(out)),
                                         static_cast<double>(local_in_features(op, context_)));
                break;
            }
            case OpKind::experts: {
                // Each of the group's ranks has its share of the routed rows where experts are chosen evenly.
                auto const share = 1.0 / static_cast<double>(setting_.ep.ranks);
                work.flops *= share;
                work.activations *= share;
                auto const held = expert_elements_ > 0.0 ? weights_.experts * elements_of(op) / expert_elements_ : 0.0;
                work.weights = held * touched(op);
                auto const rows = static_cast<double>(context_.routed_rows()) / static_cast<double>(op.experts);
                work.rate = product_rate(rows, static_cast<double>(context_.columns(out)),
                                         static_cast<double>(local_in_features(op, context_)));
                break;
            }
            case OpKind::attention: work.rate = rates_.products * efficiency_.attention; break;
            case OpKind::embedding: break;
            default: break;
        }
        return work;
    }

    /// The share of the experts that some token chooses.
    constexpr double touched(Operation const& op) const {
        if (op.experts <= 0) return 1.0;
        auto missed = 1.0;
        auto base = 1.0 - static_cast<double>(op.experts_per_token) / static_cast<double>(op.experts);
        for (auto tokens = context_.step.tokens(); tokens > 0; tokens /= 2) {
            if (tokens % 2 == 1) missed *= base;
            base *= base;
        }
        return 1.0 - missed;
    }

    constexpr CostTerms seconds(Operation const&, Work const& work, double passes, double weight_passes) const {
        auto const computing = work.rate > 0.0 ? passes * work.flops / work.rate : 0.0;
        auto const bytes = passes * work.activations + weight_passes * work.weights;
        auto const moving = rates_.memory > 0.0 ? bytes / rates_.memory : 0.0;
        CostTerms terms;
        (computing < moving ? terms.memory : terms.compute) = computing < moving ? moving : computing;
        terms.overhead = passes * rates_.kernel_seconds;
        return terms;
    }

    constexpr void add_messages(CostTerms& forward, CostTerms& backward) const {
        for (auto const& op : body_.operations()) {
            auto const& out = context_.value(op.output);
            auto const bytes = static_cast<double>(whole_bytes(out));
            if (setting_.tp.ranks > 1 && out.spread == Spread::partial && out.rows != Rows::routed) {
                auto const once = all_reduce_seconds(bytes, setting_.tp, efficiency_);
                forward.tensor_parallel += once;
                backward.tensor_parallel += once * (recompute_ == Recompute::full ? 2.0 : 1.0);
            }
            if (setting_.ep.ranks > 1 && op.kind == OpKind::combine) {
                auto const once = all_reduce_seconds(bytes, setting_.ep, efficiency_);
                forward.expert_parallel += once;
                backward.expert_parallel += once * (recompute_ == Recompute::full ? 2.0 : 1.0);
            }
        }
        if (setting_.pass != Pass::training) backward = {};
    }

    /// A value with every token's row, however sequence parallelism deals them.
    constexpr std::int64_t whole_bytes(Value const& value) const {
        auto whole = context_;
        whole.rank.is_sequence_parallel = false;
        return whole.bytes(value).count();
    }

    BlockBody const& body_;
    BlockSetting const& setting_;
    BodyWeights const& weights_;
    DeviceRates const& rates_;
    Efficiency const& efficiency_;
    Recompute recompute_;
    OpContext context_;
    double dense_elements_ = 0.0;
    double expert_elements_ = 0.0;
};

}  // namespace detail

}  // namespace shardwise::inline v0
