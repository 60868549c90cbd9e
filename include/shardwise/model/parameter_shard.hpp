// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/model/tensor.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one rank holds of a parameter: of each dimension the ranges that are its own. Estimates, plans and checks ask this. The executor's
/// BlockCut asks the same UnitSplit of the value that a weight makes or reads, with the grain that value_grains finds (blocks of a packed
/// format and leaves of a fixed sum stay whole), so that a loader's rows and columns are these ranges; training shares weights by BlockCut,
/// too. Estimates of what is packed ask with the blocks' grain (find_grains).
class ParameterShard {
public:
    /// `tensor` outlives this.
    constexpr ParameterShard(Tensor const& tensor, std::int64_t tp, std::int64_t tp_rank, std::int64_t ep = 1,
                             std::int64_t ep_rank = 0, UnitGrain grain = {})
        : tensor_(&tensor), tp_(tp), rank_(tp_rank), ep_(ep), ep_rank_(ep_rank), grain_(grain) {}

    [[nodiscard]] constexpr Tensor const& tensor() const { return *tensor_; }
    /// Of the experts that dimension 0 stacks; empty where it stacks none.
    [[nodiscard]] constexpr UnitRange experts() const { return split_units(tensor_->shard.experts, ep_, ep_rank_); }
    /// The elements of a dimension that it holds.
    [[nodiscard]] constexpr std::int64_t extent(std::size_t dim) const {
        auto const& rule = tensor_->shard;
        if (dim == 0 && rule.experts > 0 && ep_ > 1) return experts().size();
        auto const whole = tensor_->shape[dim];
        return dim == rule.dim ? rule.extent(whole, tp_, rank_, grain_) : whole;
    }
    [[nodiscard]] constexpr Shape shape() const {
        auto shape = tensor_->shape;
        for (std::size_t dim = 0; dim < shape.rank(); ++dim) shape[dim] = extent(dim);
        return shape;
    }
    [[nodiscard]] constexpr std::int64_t elements() const { return shape().elements(); }
    /// Calls `call(range)` for what it holds of a dimension, in the order of UnitSplit. With `owned` for what no rank before it
    /// holds: over all ranks each element is owned once.
    template <class Call>
    constexpr void for_each_range(std::size_t dim, bool owned, Call&& call) const {
        auto const& rule = tensor_->shard;
        auto const whole = tensor_->shape[dim];
        if (dim == 0 && rule.experts > 0)
            call(experts());
        else if (dim == rule.dim || !rule.is_shared())
            rule.for_each_range(whole, tp_, rank_, owned && dim == rule.dim, call, grain_);
        else
            call(UnitRange{0, whole});
    }

private:
    Tensor const* tensor_;
    std::int64_t tp_;
    std::int64_t rank_;
    std::int64_t ep_;
    std::int64_t ep_rank_;
    UnitGrain grain_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
