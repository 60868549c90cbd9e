// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/gradient_tree.hpp>
#include <shardwise/train/sharded_gradient_tree.hpp>
#include <shardwise/train/train_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The gradients of a model's parameters on one of the ranks that train it: a tree over the leaves of a batch, whose gradients of tied
/// names are added to those of the first name once, after all other sums. A pipeline's rank has a tree for each of its chunks, whose leaves
/// come each in its own time.
///
/// Memory  bytes(...), allocated at creation
class TrainingGradients {
public:
    using Vector = TensorView<float, 1, Host>;

    /// What is summed: each parameter, and after them each tied name, of whose gradient the owner of the parameter's owns the same.
    [[nodiscard]] static GradientShares shares_of(TrainingLayout const& layout, std::size_t chunk) {
        GradientShares out;
        auto const own = layout.chunks()[chunk];
        auto const add = [&](std::int64_t begin, std::int64_t elements) {
            if (begin >= own.begin && begin < own.end) out.add(begin - own.begin, elements);
        };
        for (auto const& parameter : layout.parameters()) add(parameter.begin, parameter.elements);
        for (auto const& tie : layout.ties()) add(tie.begin, layout.parameters()[tie.parameter].elements);
        out.extend_to(own.size());
        return out;
    }
    /// What `create` allocates; less where it lies in a file.
    [[nodiscard]] static Bytes bytes(TrainingLayout const& layout, std::int64_t leaves, TensorPlace const& place,
                                     ZeroStage zero, bool is_offloaded = false) {
        if (is_offloaded && is_sharded(place, zero)) return Bytes{0};
        Bytes sum{};
        for (std::size_t i = 0; i < layout.chunks().size(); ++i) {
            auto const shares = shares_of(layout, i);
            sum = sum + (is_sharded(place, zero) ? ShardedGradientTree::bytes(shares, leaves, place)
                                                 : GradientTree::bytes(shares, leaves, place, is_offloaded));
        }
        return sum;
    }
    /// What a rank takes from the others in one sum.
    [[nodiscard]] static CollectiveTraffic traffic(TrainingLayout const& layout, std::int64_t leaves,
                                                   TensorPlace const& place, ZeroStage zero) {
        CollectiveTraffic sum;
        for (std::size_t i = 0; i < layout.chunks().size(); ++i) {
            auto const shares = shares_of(layout, i);
            sum += is_sharded(place, zero) ? ShardedGradientTree::traffic(shares, leaves, place)
                                           : GradientTree::traffic(shares, leaves, place, result_of(zero));
        }
        return sum;
    }

    /// `layout` outlives this. With a folder the sums lie in files there (offload).
    ///
    /// Errors  as GradientTree::create
    [[nodiscard]] static Result<TrainingGradients> create(HostContext& context, TrainingLayout const& layout,
                                                          std::int64_t leaves, TensorPlace const& place, ZeroStage zero,
                                                          std::string const& folder = {}) {
        std::vector<Tree> trees;
        for (std::size_t i = 0; i < layout.chunks().size(); ++i) {
            auto const shares = shares_of(layout, i);
            if (is_sharded(place, zero)) {
                auto tree = ShardedGradientTree::create(context, shares, leaves, place, folder);
                if (!tree) return tree.error();
                trees.emplace_back(std::move(*tree));
            } else {
                auto tree = GradientTree::create(context, shares, leaves, place, result_of(zero), folder);
                if (!tree) return tree.error();
                trees.emplace_back(std::move(*tree));
            }
        }
        return TrainingGradients(layout, leaves, place, zero, std::move(trees));
    }

    /// The leaves of this rank, and where in the batch one of them is.
    [[nodiscard]] std::int64_t count() const { return split_units(leaves_, place_.ranks, place_.rank).size(); }
    [[nodiscard]] std::int64_t leaf_number(std::int64_t which) const {
        if (is_sharded(place_, zero_)) return which * place_.ranks + place_.rank;
        return split_units(leaves_, place_.ranks, place_.rank).begin + which;
    }

    [[nodiscard]] List<std::uint32_t> leaf_numbers(std::int64_t first, std::int64_t count) const {
        List<std::uint32_t> out;
        for (auto i = first; i < first + count; ++i) out.push_back(static_cast<std::uint32_t>(leaf_number(i)));
        return out;
    }

    /// Takes what lies in a file out of memory: FileMemory::drop.
    void drop() const {
        for (auto const& each : trees_) std::visit([](auto const& tree) { tree.drop(); }, each);
    }
    /// Forgets what was added.
    void clear() {
        for (auto& each : trees_) std::visit([](auto& tree) { tree.clear(); }, each);
    }
    /// Memory for the gradients of a chunk's next leaf: see GradientTree.
    [[nodiscard]] Result<Vector> leaf(std::size_t chunk = 0) {
        return std::visit([](auto& tree) { return tree.leaf(); }, trees_[chunk]);
    }
    /// Takes them into the sum.
    ///
    /// Order, Errors  as ShardedGradientTree::add
    template <Communicator C>
    [[nodiscard]] Result<> add(C& comm, HostStream& stream, std::size_t chunk = 0) {
        if (auto* const sharded = std::get_if<ShardedGradientTree>(&trees_[chunk])) return sharded->add(comm, stream);
        return std::get<GradientTree>(trees_[chunk]).add(stream);
    }
    /// Of a rank with less leaves than others, in place of what they add: see ShardedGradientTree::join.
    template <Communicator C>
    [[nodiscard]] Result<> join(C& comm, HostStream& stream, std::size_t chunk = 0) {
        auto* const sharded = std::get_if<ShardedGradientTree>(&trees_[chunk]);
        return sharded == nullptr ? Result<>{} : sharded->join(comm, stream);
    }
    /// Sums over the leaves of all ranks. All of them call it.
    ///
    /// Order, Errors  as GradientTree::sum
    template <Communicator C>
    [[nodiscard]] Result<> sum(C& comm, HostStream& stream) {
        for (std::size_t i = 0; i < trees_.size(); ++i) {
            auto const sum = std::visit([&](auto& tree) { return tree.sum(comm, stream); }, trees_[i]);
            if (!sum) return sum.error();
            sums_[i] = *sum;
        }
        auto const& ties = layout_->ties();
        for (std::size_t i = 0; i < ties.size(); ++i) {
            auto const from = of_region(layout_->parameters().size() + i);
            auto const to = of_region(ties[i].parameter);
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
    [[nodiscard]] Vector share(std::size_t parameter) const {
        auto const all = of_region(parameter);
        if (is_shared()) return all;
        auto const own = optimizer_share(all.elements(), place_.ranks, place_.rank);
        return all.part(own.begin, own.size());
    }
    /// Of that part what no other rank of a replica counts: of what tensor-parallel ranks do not share, what the first has; of what two
    /// stages have, what one of them does.
    [[nodiscard]] Vector counted(std::size_t parameter, bool is_first) const {
        auto const& of = layout_->parameters()[parameter];
        auto const own = share(parameter);
        if (of.is_copy) return own.part(0, 0);
        if (of.cut.is_whole()) return own.part(0, is_first ? own.elements() : 0);
        auto const first = optimizer_share(of.elements, place_.ranks, place_.rank).begin;
        return own.part(0, std::clamp<std::int64_t>(of.counted - first, 0, own.elements()));
    }
    /// The sum's part of a parameter that this rank has: all of it, or its share.
    [[nodiscard]] Vector held(std::size_t parameter) const { return of_region(parameter); }

    /// Where what this rank brought to the last sum was no number, among what the layout has: see GradientTree::find_bad.
    [[nodiscard]] Optional<BadElement> find_bad() {
        for (auto i = trees_.size(); i-- > 0;) {
            auto found = std::visit([](auto& tree) { return tree.find_bad(); }, trees_[i]);
            if (!found) continue;
            for (std::size_t region = 0; region < regions_.size(); ++region) {
                if (regions_[region].chunk == i && regions_[region].number == found->region)
                    return BadElement{region, found->element};
            }
        }
        return {};
    }

private:
    using Tree = std::variant<GradientTree, ShardedGradientTree>;

    /// Where a parameter's or, after those, a tie's sum lies.
    struct Region {
        std::size_t chunk = 0;
        /// Among those of the chunk's tree.
        std::size_t number = 0;
        std::int64_t begin = 0;
        std::int64_t elements = 0;
    };

    TrainingGradients(TrainingLayout const& layout, std::int64_t leaves, TensorPlace const& place, ZeroStage zero,
                      std::vector<Tree> trees)
        : layout_(&layout),
          leaves_(leaves),
          place_(place),
          zero_(zero),
          trees_(std::move(trees)),
          sums_(trees_.size()) {
        std::vector<std::int64_t> next(trees_.size(), 0);
        std::vector<std::size_t> count(trees_.size(), 0);
        auto const add = [&](std::int64_t begin, std::int64_t elements) {
            std::size_t chunk = 0;
            while (begin >= layout.chunks()[chunk].end) ++chunk;
            auto const own = optimizer_share(elements, place.ranks, place.rank);
            auto const at = begin - layout.chunks()[chunk].begin;
            // Sums of shares alone lie one after another.
            auto const in_share = is_sharded(place, zero) ? next[chunk] : at + own.begin;
            next[chunk] += own.size();
            regions_.push_back(is_shared() ? Region{chunk, count[chunk], in_share, own.size()}
                                           : Region{chunk, count[chunk], at, elements});
            ++count[chunk];
        };
        for (auto const& parameter : layout.parameters()) add(parameter.begin, parameter.elements);
        for (auto const& tie : layout.ties()) add(tie.begin, layout.parameters()[tie.parameter].elements);
    }

    /// One rank exchanges nothing.
    [[nodiscard]] static bool is_sharded(TensorPlace const& place, ZeroStage zero) {
        return zero >= ZeroStage::gradients && place.ranks > 1;
    }
    [[nodiscard]] static TreeResult result_of(ZeroStage zero) {
        return zero == ZeroStage::none ? TreeResult::whole : TreeResult::share;
    }
    [[nodiscard]] bool is_shared() const { return zero_ != ZeroStage::none && place_.ranks > 1; }
    [[nodiscard]] Vector of_region(std::size_t region) const {
        auto const& of = regions_[region];
        return sums_[of.chunk].part(of.begin, of.elements);
    }

    TrainingLayout const* layout_;
    std::int64_t leaves_;
    TensorPlace place_;
    ZeroStage zero_;
    /// By chunk, and what the last sum gave.
    std::vector<Tree> trees_;
    std::vector<Vector> sums_;
    std::vector<Region> regions_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
