// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/gradient_tree.hpp>
#include <shardwise/train/sharded_gradient_tree.hpp>
#include <shardwise/train/train_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The gradients of a model's parameters on one of the ranks that train it: a tree over the leaves of a batch, whose gradients of tied
/// names are added to those of the first name once, after all other sums.
///
/// Memory  bytes(...), allocated at creation
class TrainingGradients {
public:
    using Vector = TensorView<float, 1, Host>;

    /// What is summed: each parameter, and after them each tied name, of whose gradient the owner of the parameter's owns the same.
    [[nodiscard]] static GradientShares shares_of(TrainingLayout const& layout) {
        GradientShares out;
        for (auto const& parameter : layout.parameters()) out.add(parameter.begin, parameter.elements);
        for (auto const& tie : layout.ties()) out.add(tie.begin, layout.parameters()[tie.parameter].elements);
        out.extend_to(layout.gradient_elements());
        return out;
    }
    /// What `create` allocates.
    [[nodiscard]] static Bytes bytes(TrainingLayout const& layout, std::int64_t leaves, TensorPlace const& place,
                                     ZeroStage zero) {
        if (is_sharded(place, zero)) return ShardedGradientTree::bytes(shares_of(layout), leaves, place);
        return GradientTree::bytes(shares_of(layout), leaves, place);
    }
    /// What a rank takes from the others in one sum.
    [[nodiscard]] static CollectiveTraffic traffic(TrainingLayout const& layout, std::int64_t leaves,
                                                   TensorPlace const& place, ZeroStage zero) {
        if (is_sharded(place, zero)) return ShardedGradientTree::traffic(shares_of(layout), leaves, place);
        return GradientTree::traffic(shares_of(layout), leaves, place, result_of(zero));
    }

    /// `layout` outlives this.
    ///
    /// Errors  as GradientTree::create
    [[nodiscard]] static Result<TrainingGradients> create(HostContext& context, TrainingLayout const& layout,
                                                          std::int64_t leaves, TensorPlace const& place,
                                                          ZeroStage zero) {
        if (is_sharded(place, zero)) {
            auto tree = ShardedGradientTree::create(context, shares_of(layout), leaves, place);
            if (!tree) return tree.error();
            return TrainingGradients(layout, leaves, place, zero, std::move(*tree));
        }
        auto tree = GradientTree::create(context, shares_of(layout), leaves, place, result_of(zero));
        if (!tree) return tree.error();
        return TrainingGradients(layout, leaves, place, zero, std::move(*tree));
    }

    /// The leaves of this rank, and where in the batch one of them is.
    [[nodiscard]] std::int64_t count() const { return split_units(leaves_, place_.ranks, place_.rank).size(); }
    [[nodiscard]] std::int64_t leaf_number(std::int64_t which) const {
        if (std::holds_alternative<ShardedGradientTree>(tree_)) return which * place_.ranks + place_.rank;
        return split_units(leaves_, place_.ranks, place_.rank).begin + which;
    }

    [[nodiscard]] List<std::uint32_t> leaf_numbers(std::int64_t first, std::int64_t count) const {
        List<std::uint32_t> out;
        for (auto i = first; i < first + count; ++i) out.push_back(static_cast<std::uint32_t>(leaf_number(i)));
        return out;
    }

    /// Forgets what was added.
    void clear() {
        std::visit([](auto& tree) { tree.clear(); }, tree_);
    }
    /// Memory for the gradients of the next leaf: see GradientTree.
    [[nodiscard]] Result<Vector> leaf() {
        return std::visit([](auto& tree) { return tree.leaf(); }, tree_);
    }
    /// Takes them into the sum.
    ///
    /// Order, Errors  as ShardedGradientTree::add
    template <Communicator C>
    [[nodiscard]] Result<> add(C& comm, HostStream& stream) {
        if (auto* const sharded = std::get_if<ShardedGradientTree>(&tree_)) return sharded->add(comm, stream);
        return std::get<GradientTree>(tree_).add(stream);
    }
    /// Sums over the leaves of all ranks. All of them call it.
    ///
    /// Order, Errors  as GradientTree::sum
    template <Communicator C>
    [[nodiscard]] Result<> sum(C& comm, HostStream& stream) {
        auto const sum = std::visit([&](auto& tree) { return tree.sum(comm, stream); }, tree_);
        if (!sum) return sum.error();
        sum_ = *sum;
        if (!is_shared()) return add_tied_gradients(*layout_, sum_, stream);
        auto const& ties = layout_->ties();
        for (std::size_t i = 0; i < ties.size(); ++i) {
            auto const from = share_of_region(layout_->parameters().size() + i);
            auto const to = share_of_region(ties[i].parameter);
            if (from.elements() == 0) continue;
            auto const done = add_backward(TensorView<float const, 2, Host>{from.data(), {1, from.elements()}},
                                           TensorView<float, 2, Host>{to.data(), {1, to.elements()}}, true, stream);
            if (!done) return done;
        }
        return {};
    }

    /// The sum's part of a parameter that this rank owns, and no other.
    ///
    /// Shapes  [optimizer_share(elements, ranks, rank).size()]
    [[nodiscard]] Vector share(std::size_t parameter) const { return share_of_region(parameter); }
    /// Of that part what no other tensor-parallel rank counts: of what these do not share, what the first has.
    [[nodiscard]] Vector counted(std::size_t parameter, bool is_first) const {
        auto const& of = layout_->parameters()[parameter];
        auto const own = share(parameter);
        if (of.cut.is_whole()) return own.part(0, is_first ? own.elements() : 0);
        auto const first = optimizer_share(of.elements, place_.ranks, place_.rank).begin;
        return own.part(0, std::clamp<std::int64_t>(of.counted - first, 0, own.elements()));
    }
    /// The sum's part of a parameter that this rank has: all of it, or its share.
    [[nodiscard]] Vector held(std::size_t parameter) const {
        auto const& of = layout_->parameters()[parameter];
        return is_shared() ? share(parameter) : sum_.part(of.begin, of.elements);
    }

    /// Where what this rank brought to the last sum was no number: see GradientTree::find_bad; and what that region is called.
    [[nodiscard]] Optional<BadElement> find_bad() {
        return std::visit([](auto& tree) { return tree.find_bad(); }, tree_);
    }
    [[nodiscard]] std::string_view name(std::size_t region) const {
        auto const parameters = layout_->parameters().size();
        return region < parameters ? layout_->parameters()[region].name : layout_->ties()[region - parameters].name;
    }

private:
    using Tree = std::variant<GradientTree, ShardedGradientTree>;

    TrainingGradients(TrainingLayout const& layout, std::int64_t leaves, TensorPlace const& place, ZeroStage zero,
                      Tree tree)
        : layout_(&layout), leaves_(leaves), place_(place), zero_(zero), tree_(std::move(tree)) {
        auto const shares = shares_of(layout);
        std::int64_t next = 0;
        for (std::size_t i = 0; i < shares.regions().size(); ++i) {
            auto const own = shares.range(i, place.ranks, place.rank);
            share_begins_.push_back(is_sharded(place, zero) ? next : own.begin);
            share_sizes_.push_back(own.size());
            next += own.size();
        }
    }

    /// One rank exchanges nothing.
    [[nodiscard]] static bool is_sharded(TensorPlace const& place, ZeroStage zero) {
        return zero >= ZeroStage::gradients && place.ranks > 1;
    }
    [[nodiscard]] static TreeResult result_of(ZeroStage zero) {
        return zero == ZeroStage::none ? TreeResult::whole : TreeResult::share;
    }
    [[nodiscard]] bool is_shared() const { return zero_ != ZeroStage::none && place_.ranks > 1; }
    [[nodiscard]] Vector share_of_region(std::size_t region) const {
        return sum_.part(share_begins_[region], share_sizes_[region]);
    }

    TrainingLayout const* layout_;
    std::int64_t leaves_;
    TensorPlace place_;
    ZeroStage zero_;
    Tree tree_;
    /// Where this rank's share of each region lies in the sum.
    List<std::int64_t> share_begins_;
    List<std::int64_t> share_sizes_;
    /// What the last sum gave.
    Vector sum_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
