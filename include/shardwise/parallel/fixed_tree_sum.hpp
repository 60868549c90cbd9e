// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/op/collective_load.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>
#include <shardwise/parallel/detail/tree_plan.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What is computed for a tree at a time: one leaf, or the sums of all nodes of a rank.
enum class TreeParts : std::uint8_t {
    leaves,
    nodes,
};

/// A sum of matrices [tokens, width], one per leaf, over the tree of comm/deterministic_sum.hpp: ranks own whole leaves in order
/// (split_units), compute them into the caller's workspace, and exchange the sums of their nodes. The bits do not depend on
/// the ranks, on the communicator or on the tokens beside a token. What to do is found out once; calls allocate nothing.
///
/// `compute` puts leaves in place, on the stream: `compute(leaf, tokens, out) -> Result<>` one leaf's rows of some tokens, or
/// `compute(tokens, out) -> Result<>` the sums of all nodes of the rank, out [nodes, tokens, width], which needs no room for
/// leaves. This object and what `compute` refers to outlive what is in the stream.
template <ComputeBackend Backend>
class FixedTreeSum {
public:
    using Stream = typename Backend::Stream;
    using Matrix = TensorView<float, 2, Backend>;
    using Vector = TensorView<float, 1, Backend>;
    using Nodes = TensorView<float, 3, Backend>;

    FixedTreeSum() = default;
    FixedTreeSum(std::int64_t leaves, std::int64_t width, TensorPlace place, TreeParts parts = TreeParts::leaves)
        : plan_(leaves, place.ranks, place.rank),
          width_(width),
          scratch_(parts == TreeParts::leaves ? plan_.scratch() : 0),
          place_(place) {}

    [[nodiscard]] detail::TreePlan const& plan() const { return plan_; }

    /// Floats that `sum` needs beside its result.
    [[nodiscard]] std::int64_t workspace(std::int64_t tokens) const {
        if (place_.ranks == 1) return scratch_ * tokens * width_;
        if (is_summed_in_parts(tokens)) return workspace_scattered(tokens);
        return (plan_.nodes() + scratch_) * tokens * width_;
    }
    /// Floats that are enough for any number of tokens up to this: long sums, made in parts, need less than some shorter ones.
    [[nodiscard]] std::int64_t max_workspace(std::int64_t tokens) const {
        auto const whole = width_ > 0 ? std::max(one_shot_elements / width_, place_.ranks - 1) : tokens;
        return std::max(workspace(tokens), workspace(std::min(tokens, whole)));
    }
    /// Floats that `sum_scattered` needs beside its result.
    [[nodiscard]] std::int64_t workspace_scattered(std::int64_t tokens) const {
        if (place_.ranks == 1) return workspace(tokens);
        auto const most = share(tokens, 0).size();
        auto const own = share(tokens, place_.rank).size();
        return (plan_.own() * tokens + plan_.nodes() * own + scratch_ * most) * width_;
    }

    /// The sum, on every rank. Long sums are made in parts: each rank sums its tokens and the ranks gather them, the same bits
    /// in fewer bytes.
    ///
    /// Shapes  out [tokens, width] dense; workspace [workspace(tokens)] or more
    /// Order   on `stream`
    /// Errors  shape_mismatch; those of `compute`; a collective's error stops the stream
    template <Communicator C, class Compute>
    [[nodiscard]] Result<> sum(Compute const& compute, Matrix out, Vector workspace, C& comm, Stream& stream) const {
        auto const tokens = out.extent(0);
        if (auto const checked = check(tokens, out, workspace, this->workspace(tokens), comm); !checked) return checked;
        return sum_checked(compute, out, workspace, comm, stream);
    }
    /// `sum` where the caller has checked what it checks.
    template <Communicator C, class Compute>
    [[nodiscard]] Result<> sum_checked(Compute const& compute, Matrix out, Vector workspace, C& comm,
                                       Stream& stream) const {
        auto const tokens = out.extent(0);
        auto const size = out.elements();
        if (place_.ranks == 1) {
            // The only node is the root: it is summed where it belongs.
            return compute_nodes(compute, {0, tokens}, out.data(), workspace.data(), stream);
        }
        if (is_summed_in_parts(tokens)) {
            auto const own = share(tokens, place_.rank);
            auto const part = out.rows(own.begin, own.size());
            if (auto const done = sum_scattered(compute, tokens, part, workspace, comm, stream); !done) return done;
            return gather_tokens<Backend>(comm, part, out, stream);
        }
        auto* const nodes = workspace.data();
        auto const slot = [nodes, size](std::int64_t i) { return nodes + i * size; };
        auto const computed = compute_nodes(compute, {0, tokens}, slot(plan_.first_own()), slot(plan_.nodes()), stream);
        if (!computed) return computed;
        submit_all_gather(
            comm, TensorView<float const, 1, Backend>{slot(plan_.first_own()), {plan_.own() * size}},
            Vector{nodes, {plan_.nodes() * size}},
            [this, size](std::int32_t rank) { return plan_.counts()[static_cast<std::size_t>(rank)] * size; }, stream);
        return merge_nodes(slot, out, stream);
    }

    /// The sum's rows of this rank's tokens, split_units(tokens, ranks, rank).
    ///
    /// Shapes  out [own tokens, width] dense; workspace [workspace_scattered(tokens)] or more
    /// Order   on `stream`
    /// Errors  as sum
    template <Communicator C, class Compute>
    [[nodiscard]] Result<> sum_scattered(Compute const& compute, std::int64_t tokens, Matrix out, Vector workspace,
                                         C& comm, Stream& stream) const {
        if (place_.ranks == 1) return sum(compute, out, workspace, comm, stream);
        auto const own_tokens = share(tokens, place_.rank).size();
        auto const needed = workspace_scattered(tokens);
        if (auto const checked = check(own_tokens, out, workspace, needed, comm); !checked) return checked;
        auto const own_size = out.elements();
        // Each rank's tokens are summed apart, so that what it is sent lies together: [ranks][nodes][its tokens].
        auto* const sent = workspace.data();
        auto* const nodes = sent + plan_.own() * tokens * width_;
        auto* const scratch = nodes + plan_.nodes() * own_size;
        for (std::int64_t rank = 0; rank < place_.ranks; ++rank) {
            auto const rows = share(tokens, rank);
            auto* const place = sent + plan_.own() * rows.begin * width_;
            if (auto const done = compute_nodes(compute, rows, place, scratch, stream); !done) return done;
        }
        submit_all_to_all(
            comm, TensorView<float const, 1, Backend>{sent, {plan_.own() * tokens * width_}},
            [this, tokens](std::int32_t rank) { return plan_.own() * share(tokens, rank).size() * width_; },
            Vector{nodes, {plan_.nodes() * own_size}},
            [this, own_size](std::int32_t rank) { return plan_.counts()[static_cast<std::size_t>(rank)] * own_size; },
            stream);
        return merge_nodes([=](std::int64_t i) { return nodes + i * own_size; }, out, stream);
    }

private:
    /// One gather of all nodes takes one message; from here on bytes count more, as in an all-reduce.
    static constexpr std::int64_t one_shot_elements = direct_sum_bytes / static_cast<std::int64_t>(sizeof(float));

    [[nodiscard]] UnitRange share(std::int64_t tokens, std::int64_t rank) const {
        return split_units(tokens, place_.ranks, rank);
    }
    /// The same on all ranks. With two nodes in all, parts save nothing.
    [[nodiscard]] bool is_summed_in_parts(std::int64_t tokens) const {
        return plan_.nodes() > 2 && tokens >= place_.ranks && tokens * width_ > one_shot_elements;
    }

    template <Communicator C>
    [[nodiscard]] Result<> check(std::int64_t rows, Matrix out, Vector workspace, std::int64_t needed,
                                 C const& comm) const {
        if (auto const known = check_views("fixed_tree_sum", out, workspace); !known) return known;
        auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("fixed_tree_sum"); };
        if (out.extent(0) != rows || out.extent(1) != width_ || !out.is_dense()) {
            return refused()
                .because("the output does not have the sum's rows and columns without gaps")
                .got(out.elements())
                .expected(rows * width_);
        }
        if (workspace.elements() < needed)
            return refused().because("the workspace is too small").got(workspace.elements()).at_least(needed);
        if (comm.size() != place_.ranks || comm.rank() != place_.rank)
            return refused().because("was planned for another group").got(comm.size()).expected(place_.ranks);
        return {};
    }

    /// The sums of the rank's nodes for some tokens, one after another.
    template <class Compute>
    [[nodiscard]] Result<> compute_nodes(Compute const& compute, UnitRange tokens, float* nodes, float* scratch,
                                         Stream& stream) const {
        auto const size = tokens.size() * width_;
        if (size == 0 || plan_.own() == 0) return {};
        if constexpr (std::is_invocable_v<Compute const&, UnitRange, Nodes>) {
            return compute(tokens, Nodes{nodes, {plan_.own(), tokens.size(), width_}});
        } else {
            SHARDWISE_ASSERT(scratch_ == plan_.scratch());
            auto const slot = [=, this](std::int64_t i) {
                return i < plan_.nodes() ? nodes + (i - plan_.first_own()) * size
                                         : scratch + (i - plan_.nodes()) * size;
            };
            for (auto const& step : plan_.before()) {
                if (step.leaf == detail::TreeStep::no_leaf) {
                    if (auto const added = detail::add_to<Backend>({slot(step.to), {size}}, slot(step.from), stream);
                        !added)
                        return added;
                    continue;
                }
                auto const done = compute(step.leaf, tokens, Matrix{slot(step.to), {tokens.size(), width_}});
                if (!done) return done;
            }
            return {};
        }
    }

    /// The root's sum from those of all nodes.
    template <class Slot>
    [[nodiscard]] Result<> merge_nodes(Slot const& slot, Matrix out, Stream& stream) const {
        Vector const flat{out.data(), {out.elements()}};
        for (auto const& step : plan_.after()) {
            auto const added = detail::add_to<Backend>({slot(step.to), {flat.elements()}}, slot(step.from), stream);
            if (!added) return added;
        }
        return Backend::template copy<float>(TensorView<float const, 1, Backend>(slot(0), {flat.elements()}), flat,
                                             stream);
    }

    detail::TreePlan plan_;
    std::int64_t width_ = 0;
    /// Slots for leaves, beside those of nodes.
    std::int64_t scratch_ = 0;
    TensorPlace place_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
