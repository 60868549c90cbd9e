// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/memory/model_parts.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The weights of one block on one rank; the mean over the layers that run the same body where a mixture packs them
/// differently.
///
/// Units  bytes and elements
struct BodyWeights {
    double dense = 0.0;
    double experts = 0.0;
    /// Embedding tables, of which a step reads a row per token.
    double tables = 0.0;
    /// Elements of dense weights and tables together, and of experts.
    double dense_parameters = 0.0;
    double expert_parameters = 0.0;
    /// Of the dense ones, those that another block trains: a head that is the embedding's table.
    double tied_parameters = 0.0;
    /// Of the dense ones, but for tied ones, and of experts those of an adapter's base, which nothing trains, and their bytes.
    double frozen_dense = 0.0;
    double frozen_experts = 0.0;
    double frozen_dense_bytes = 0.0;
    double frozen_expert_bytes = 0.0;
    /// Tables whose rows are sharded over the tensor-parallel ranks, so that each rank finds a part of the tokens.
    double dealt_tables = 0.0;

    /// What the optimizer updates here.
    [[nodiscard]] constexpr double trained_dense() const { return dense_parameters - tied_parameters - frozen_dense; }
    [[nodiscard]] constexpr double trained_experts() const { return expert_parameters - frozen_experts; }

    /// Without experts, and of experts alone, as data-parallel ranks exchange them.
    [[nodiscard]] constexpr BodyWeights dense_alone() const {
        auto out = *this;
        out.experts = out.expert_parameters = out.frozen_experts = out.frozen_expert_bytes = 0.0;
        return out;
    }
    [[nodiscard]] constexpr BodyWeights experts_alone() const {
        return {.experts = experts,
                .expert_parameters = expert_parameters,
                .frozen_experts = frozen_experts,
                .frozen_expert_bytes = frozen_expert_bytes};
    }

    constexpr BodyWeights& operator+=(BodyWeights const& other) {
        dense += other.dense;
        experts += other.experts;
        tables += other.tables;
        dense_parameters += other.dense_parameters;
        expert_parameters += other.expert_parameters;
        tied_parameters += other.tied_parameters;
        frozen_dense += other.frozen_dense;
        frozen_experts += other.frozen_experts;
        frozen_dense_bytes += other.frozen_dense_bytes;
        frozen_expert_bytes += other.frozen_expert_bytes;
        dealt_tables += other.dealt_tables;
        return *this;
    }
    [[nodiscard]] friend constexpr BodyWeights operator*(double factor, BodyWeights const& weights) {
        return {factor * weights.dense,
                factor * weights.experts,
                factor * weights.tables,
                factor * weights.dense_parameters,
                factor * weights.expert_parameters,
                factor * weights.tied_parameters,
                factor * weights.frozen_dense,
                factor * weights.frozen_experts,
                factor * weights.frozen_dense_bytes,
                factor * weights.frozen_expert_bytes,
                factor * weights.dealt_tables};
    }
};

namespace detail {

/// Sums one part's tensors into the members of BodyWeights.
class PartWeigher {
public:
    constexpr PartWeigher(Model const& model, ModelPart const& part, EstimateRequest const& request,
                          RankPlace const& place)
        : model_(model), part_(part), request_(request), place_(place) {
        for (auto const& op : model.program.bodies()[static_cast<std::size_t>(part.body)].operations())
            has_table_ = has_table_ || op.kind == OpKind::embedding;
    }

    /// Adds every layer of the part.
    constexpr void add_to(BodyWeights& weights) const {
        auto const sum = [&](auto const& measure) {
            auto const one = sum_part(model_, part_, request_.parallel, place_, measure);
            return static_cast<double>(part_.count) * static_cast<double>(one);
        };
        weights.experts += sum([&](Tensor const& tensor, LayerPosition const& at) {
            return is_expert(tensor, at) ? bytes(tensor, at) : std::int64_t{0};
        });
        weights.tables += sum([&](Tensor const& tensor, LayerPosition const& at) {
            return is_table(tensor) ? bytes(tensor, at) : std::int64_t{0};
        });
        weights.dense += sum([&](Tensor const& tensor, LayerPosition const& at) {
            return is_expert(tensor, at) || is_table(tensor) ? std::int64_t{0} : bytes(tensor, at);
        });
        weights.expert_parameters += sum([&](Tensor const& tensor, LayerPosition const& at) {
            return is_expert(tensor, at) ? elements(tensor, at) : std::int64_t{0};
        });
        weights.dense_parameters += sum([&](Tensor const& tensor, LayerPosition const& at) {
            return is_expert(tensor, at) ? std::int64_t{0} : elements(tensor, at);
        });
        if (trains_adapter(request_)) add_frozen(weights, sum);
        weights.dealt_tables += sum([&](Tensor const& tensor, LayerPosition const&) {
            bool const is_dealt = tensor.shard.kind == ShardKind::units && tensor.shard.dim == 0;
            return std::int64_t{is_table(tensor) && is_dealt ? 1 : 0};
        });
    }

private:
    template <class Sum>
    constexpr void add_frozen(BodyWeights& weights, Sum const& sum) const {
        auto const of = [&](bool wants_experts, auto const& measure) {
            return sum([&](Tensor const& tensor, LayerPosition const& at) {
                bool const is_counted = is_frozen(tensor, request_) && is_expert(tensor, at) == wants_experts;
                return is_counted ? measure(tensor, at) : std::int64_t{0};
            });
        };
        auto const count = [this](Tensor const& tensor, LayerPosition const& at) { return elements(tensor, at); };
        auto const weigh = [this](Tensor const& tensor, LayerPosition const& at) { return bytes(tensor, at); };
        weights.frozen_dense += of(false, count);
        weights.frozen_experts += of(true, count);
        weights.frozen_dense_bytes += of(false, weigh);
        weights.frozen_expert_bytes += of(true, weigh);
    }
    static constexpr bool is_expert(Tensor const& tensor, LayerPosition const& at) {
        return at.is_expert || tensor.shard.experts > 0;
    }
    constexpr bool is_table(Tensor const& tensor) const { return has_table_ && shardwise::is_table(tensor.use); }
    constexpr std::int64_t bytes(Tensor const& tensor, LayerPosition const& at) const {
        return shard_bytes(tensor, at, request_, place_).count();
    }
    constexpr std::int64_t elements(Tensor const& tensor, LayerPosition const& at) const {
        return tensor.is_parameter() ? shard_of(tensor, request_.parallel, place_, at.grain).elements() : 0;
    }

    Model const& model_;
    ModelPart const& part_;
    EstimateRequest const& request_;
    RankPlace place_;
    bool has_table_ = false;
};

}  // namespace detail

/// The weights of every body of a model's program (ModelParts::bodies) on the rank `place` of the request's groups.
[[nodiscard]] constexpr List<BodyWeights> body_weights(Model const& model, ModelParts const& parts,
                                                       EstimateRequest const& request, RankPlace const& place = {}) {
    List<BodyWeights> all(parts.bodies.size());
    List<double> layers(all.size(), 0.0);
    for (auto const& part : parts.parts) {
        if (part.body < 0) continue;
        auto const body = static_cast<std::size_t>(part.grained);
        detail::PartWeigher(model, part, request, place).add_to(all[body]);
        layers[body] += static_cast<double>(part.count);
    }
    for (auto const& tie : parts.ties) {
        auto const body = parts.parts[tie.other].grained;
        if (body < 0) continue;
        auto const elements = static_cast<double>(shard_of(tie.tensor, request.parallel, place).elements());
        auto& own = all[static_cast<std::size_t>(body)];
        own.tied_parameters += elements;
        if (!trains_adapter(request)) continue;
        own.frozen_dense -= elements;
        own.frozen_dense_bytes -= static_cast<double>(shard_bytes(tie.tensor, tie.position, request, place).count());
    }
    for (std::size_t body = 0; body < all.size(); ++body) {
        if (layers[body] > 1.0) all[body] = (1.0 / layers[body]) * all[body];
    }
    return all;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
