// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/detail/bucket_plan.hpp>
#include <shardwise/train/detail/exchange_stream.hpp>
#include <shardwise/train/detail/gradient_checksums.hpp>
#include <shardwise/train/gradient_tree.hpp>
#include <shardwise/train/sharded_gradient_tree.hpp>
#include <shardwise/train/train_options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How the gradients of a batch's leaves become their sum.
struct GradientSums {
    /// Of the batch.
    std::int64_t leaves = 1;
    /// Among data-parallel ranks.
    TensorPlace place{};
    ZeroStage zero = ZeroStage::none;
    /// A rank's leaves are added into one sum by their backward passes, and ranks add their sums once: TrainOptions::is_fast.
    bool is_fast = false;
    /// Those that ranks exchange together; without any all of them.
    detail::BucketPlan buckets{};
    /// Where the sums lie in a file; empty: in memory.
    std::string folder{};

    /// Whether each leaf's gradient goes to the owners of its elements; one rank exchanges nothing.
    [[nodiscard]] bool is_sharded() const { return zero >= ZeroStage::gradients && place.ranks > 1 && !is_fast; }
    /// Whether ranks can exchange something while backward passes go on.
    [[nodiscard]] bool has_early() const { return place.ranks > 1 && buckets.has_early(); }
    /// Whether a rank gets its share of the sum alone.
    [[nodiscard]] bool is_shared() const { return zero != ZeroStage::none && place.ranks > 1; }
    /// What the tree has as leaves: those of the batch, or the ranks' sums.
    [[nodiscard]] std::int64_t tree_leaves() const { return is_fast ? place.ranks : leaves; }
    [[nodiscard]] TreeResult result() const { return zero == ZeroStage::none ? TreeResult::whole : TreeResult::share; }
};

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
    [[nodiscard]] static Bytes bytes(TrainingLayout const& layout, GradientSums const& sums) {
        bool const is_offloaded = !sums.folder.empty();
        if (is_offloaded && sums.is_sharded()) return Bytes{0};
        Bytes sum{};
        for (std::size_t i = 0; i < layout.chunks().size(); ++i) {
            auto const shares = shares_of(layout, i);
            auto const buckets = sums.buckets.of(i).buckets;
            sum = sum + (sums.is_sharded()
                             ? ShardedGradientTree::bytes(shares, sums.leaves, sums.place, buckets)
                             : GradientTree::bytes(shares, sums.tree_leaves(), sums.place, buckets, is_offloaded));
        }
        return sum;
    }
    /// What a rank takes from the others in one sum.
    [[nodiscard]] static CollectiveTraffic traffic(TrainingLayout const& layout, GradientSums const& sums) {
        CollectiveTraffic sum;
        for (std::size_t i = 0; i < layout.chunks().size(); ++i) {
            auto const shares = shares_of(layout, i);
            auto const buckets = sums.buckets.of(i).buckets;
            sum += sums.is_sharded()
                       ? ShardedGradientTree::traffic(shares, sums.leaves, sums.place, buckets)
                       : GradientTree::traffic(shares, sums.tree_leaves(), sums.place, sums.result(), buckets);
        }
        return sum;
    }

    /// `layout` outlives this. With `beside` buckets that are whole before a backward pass ends are exchanged by a thread of their own,
    /// which the pass waits for that long.
    ///
    /// Errors  as GradientTree::create
    [[nodiscard]] static Result<TrainingGradients> create(HostContext& context, TrainingLayout const& layout,
                                                          GradientSums const& sums,
                                                          std::optional<std::chrono::nanoseconds> beside = {}) {
        std::vector<Tree> trees;
        for (std::size_t i = 0; i < layout.chunks().size(); ++i) {
            auto const shares = shares_of(layout, i);
            auto const buckets = sums.buckets.of(i).buckets;
            if (sums.is_sharded()) {
                auto tree = ShardedGradientTree::create(context, shares, sums.leaves, sums.place, buckets, sums.folder);
                if (!tree) return tree.error();
                trees.emplace_back(std::move(*tree));
            } else {
                auto tree = GradientTree::create(context, shares, sums.tree_leaves(), sums.place, sums.result(),
                                                 buckets, sums.folder);
                if (!tree) return tree.error();
                trees.emplace_back(std::move(*tree));
            }
        }
        TrainingGradients out(layout, sums, std::move(trees));
        if (beside && sums.has_early()) out.beside_ = std::make_unique<detail::ExchangeStream>(*beside);
        return Result<TrainingGradients>(std::move(out));
    }

    /// The leaves of this rank, and where in the batch one of them is.
    [[nodiscard]] std::int64_t count() const { return range().size(); }
    [[nodiscard]] std::int64_t leaf_number(std::int64_t which) const {
        if (options_.is_sharded()) return which * options_.place.ranks + options_.place.rank;
        return range().begin + which;
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
        std::fill(added_.begin(), added_.end(), 0);
        left_ = trees_.size();
    }
    /// Whether the last leaf's gradients may still be exchanged beside the stream: before the next ones are written it is to wait for that.
    [[nodiscard]] bool is_exchanging() const { return is_exchanging_; }
    void join_exchange(HostStream& stream) {
        if (std::exchange(is_exchanging_, false)) beside_->join(stream);
    }
    /// Memory for the gradients of a chunk's next leaf: see GradientTree. Where it `adds_leaf`, those are added to what is there.
    [[nodiscard]] Result<Vector> leaf(std::size_t chunk = 0) {
        return std::visit([](auto& tree) { return tree.leaf(); }, trees_[chunk]);
    }
    /// What a backward pass of a chunk's next leaf calls after each block, the head first (ChunkPass::done), where its buckets are exchanged
    /// beside it: of the rank's last leaf, and of each where shares alone are summed; else empty. This, `comm` and the stream outlive it.
    ///
    /// Order   as GradientTree::reduce
    template <Communicator C>
    [[nodiscard]] ChunkPass::Done reducer(C& comm, HostStream& stream, std::size_t chunk = 0) {
        if (!beside_ || checksums_ != nullptr) return {};
        auto const reduce = [this, &comm, &stream, chunk](auto& tree, std::int64_t block) -> Result<> {
            // What ends with the pass is exchanged by whoever waits for it.
            auto const& plan = options_.buckets.chunks[chunk];
            while (block > plan.first && tree.reduced() < plan.ends.size() && plan.ends[tree.reduced()] >= block) {
                if (auto const done = tree.reduce(comm, stream, *beside_); !done) return done;
                ++early_;
            }
            return {};
        };
        if (auto* const tree = std::get_if<ShardedGradientTree>(&trees_[chunk]))
            return [reduce, tree](std::int64_t block) { return reduce(*tree, block); };
        auto* const tree = std::get_if<GradientTree>(&trees_[chunk]);
        bool const is_last = options_.is_fast ? added_[chunk] + 1 == count() : tree->is_last();
        // Ranks exchange chunks in one order, from the last to the first, whichever of them is whole first.
        if (!is_last || chunk + 1 != left_) return {};
        return [reduce, tree](std::int64_t block) { return reduce(*tree, block); };
    }
    /// Waits for what is exchanged beside the stream: where a step has failed.
    [[nodiscard]] Result<> synchronize(Deadline deadline) {
        return beside_ ? beside_->synchronize(deadline) : Result<>{};
    }
    /// What exchanges buckets beside backward passes; null where nothing does. And how many it has exchanged so far.
    [[nodiscard]] detail::ExchangeStream const* beside() const { return beside_.get(); }
    [[nodiscard]] std::int64_t early_buckets() const { return early_; }
    [[nodiscard]] bool adds_leaf(std::size_t chunk = 0) const { return options_.is_fast && added_[chunk] > 0; }
    /// Takes them into the sum.
    ///
    /// Order, Errors  as ShardedGradientTree::add
    template <Communicator C>
    [[nodiscard]] Result<> add(C& comm, HostStream& stream, std::size_t chunk = 0) {
        if (checksums_ != nullptr) {
            if (auto const taken = submit_checksums(stream, chunk); !taken) return taken;
        }
        if (auto* const sharded = std::get_if<ShardedGradientTree>(&trees_[chunk])) {
            is_exchanging_ = beside_ != nullptr;
            return sharded->add(comm, stream, beside_.get());
        }
        // The sum of all is the rank's leaf in the tree.
        if (options_.is_fast && ++added_[chunk] < count()) return {};
        if (auto const added = std::get<GradientTree>(trees_[chunk]).add(stream); !added) return added;
        return beside_ ? reduce_whole(comm, stream) : Result<>{};
    }
    /// Of a rank with less leaves than others, in place of what they add: see ShardedGradientTree::join.
    template <Communicator C>
    [[nodiscard]] Result<> join(C& comm, HostStream& stream, std::size_t chunk = 0) {
        auto* const sharded = std::get_if<ShardedGradientTree>(&trees_[chunk]);
        return sharded == nullptr ? Result<>{} : sharded->join(comm, stream, beside_.get());
    }
    /// Has checksums taken of each leaf that is added from now on; null: of none. Buckets are then exchanged after the backward pass alone.
    void take_checksums(std::shared_ptr<detail::GradientChecksums> to) { checksums_ = std::move(to); }
    /// Takes those of the sums, once the stream is done.
    void add_sums_to(detail::GradientChecksums& to) const {
        for (std::size_t i = 0; i < layout_->parameters().size(); ++i)
            detail::add_checksum(to.sums[i], held(i), [this] { drop(); });
    }
    /// Parameters and ties.
    [[nodiscard]] std::size_t regions() const { return regions_.size(); }

    /// Sums over the leaves of all ranks. All of them call it.
    ///
    /// Order, Errors  as GradientTree::sum
    template <Communicator C>
    [[nodiscard]] Result<> sum(C& comm, HostStream& stream) {
        is_exchanging_ = false;
        left_ = trees_.size();
        for (std::size_t i = trees_.size(); i-- > 0;) {
            auto const sum = std::visit([&](auto& tree) { return tree.sum(comm, stream, beside_.get()); }, trees_[i]);
            if (!sum) return sum.error();
            sums_[i] = *sum;
            added_[i] = 0;
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
        if (options_.is_shared()) return all;
        auto const own = optimizer_share(all.elements(), options_.place.ranks, options_.place.rank);
        return all.part(own.begin, own.size());
    }
    /// Of the parts of all parameters what no other rank of a replica counts: of what tensor-parallel ranks do not share, what the first
    /// has; of what two stages have, what one of them does.
    [[nodiscard]] List<TensorView<float const, 1, Host>> counted(bool is_first) const {
        List<TensorView<float const, 1, Host>> out;
        for (std::size_t parameter = 0; parameter < layout_->parameters().size(); ++parameter) {
            auto const& of = layout_->parameters()[parameter];
            if (of.is_copy || (of.cut.is_whole() && !is_first)) continue;
            auto const own = share(parameter);
            auto const held = optimizer_share(of.elements, options_.place.ranks, options_.place.rank);
            for (auto const& run : of.counted_of(held)) out.push_back(own.part(run.begin - held.begin, run.size()));
        }
        return out;
    }
    /// The sum's part of a parameter that this rank has: all of it, or its share; and that of each parameter.
    [[nodiscard]] Vector held(std::size_t parameter) const { return of_region(parameter); }
    [[nodiscard]] List<TensorView<float const, 1, Host>> held() const {
        List<TensorView<float const, 1, Host>> out;
        for (std::size_t i = 0; i < layout_->parameters().size(); ++i) out.push_back(held(i));
        return out;
    }

    /// The bucket in which ranks exchange a parameter or, after those, a tie; -1 where they have none.
    [[nodiscard]] std::int64_t bucket_of(std::size_t region) const {
        auto const& of = regions_[region];
        if (options_.place.ranks == 1) return -1;
        auto const bucket = std::visit([&of](auto const& tree) { return tree.bucket_of(of.number); }, trees_[of.chunk]);
        return static_cast<std::int64_t>(bucket);
    }
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

    TrainingGradients(TrainingLayout const& layout, GradientSums const& sums, std::vector<Tree> trees)
        : layout_(&layout),
          options_(sums),
          trees_(std::move(trees)),
          sums_(trees_.size()),
          added_(trees_.size(), 0),
          left_(trees_.size()) {
        std::vector<std::size_t> count(trees_.size(), 0);
        auto const add = [&](std::int64_t begin, std::int64_t elements) {
            std::size_t chunk = 0;
            while (begin >= layout.chunks()[chunk].end) ++chunk;
            auto const own = optimizer_share(elements, sums.place.ranks, sums.place.rank);
            auto const at = begin - layout.chunks()[chunk].begin;
            auto const* const sharded = std::get_if<ShardedGradientTree>(&trees_[chunk]);
            auto const in_share = sharded != nullptr ? sharded->place(count[chunk]) : at + own.begin;
            regions_.push_back(sums.is_shared() ? Region{chunk, count[chunk], in_share, own.size()}
                                                : Region{chunk, count[chunk], at, elements});
            ++count[chunk];
        };
        for (auto const& parameter : layout.parameters()) add(parameter.begin, parameter.elements);
        for (auto const& tie : layout.ties()) add(tie.begin, layout.parameters()[tie.parameter].elements);
    }

    /// Sends off what is whole of chunks that come before others in the order, but for the last of them: `sum` does that.
    template <Communicator C>
    [[nodiscard]] Result<> reduce_whole(C& comm, HostStream& stream) {
        for (; left_ > 1; --left_) {
            auto& tree = std::get<GradientTree>(trees_[left_ - 1]);
            if (!tree.is_whole()) return {};
            for (; tree.reduced() < tree.buckets(); ++early_) {
                if (auto const done = tree.reduce(comm, stream, *beside_); !done) return done;
            }
        }
        return {};
    }

    /// Of a chunk's leaf that is added next.
    [[nodiscard]] Result<> submit_checksums(HostStream& stream, std::size_t chunk) {
        auto const gradients = leaf(chunk);
        if (!gradients) return gradients.error();
        auto const shares = shares_of(*layout_, chunk);
        std::size_t next = 0;
        for (auto const& region : shares.regions()) {
            while (regions_[next].chunk != chunk) ++next;
            auto const values = gradients->part(region.begin, region.elements);
            stream.submit([values, to = checksums_, number = next++, tree = &trees_[chunk]] {
                detail::add_checksum(to->own[number], values,
                                     [tree] { std::visit([](auto const& each) { each.drop(); }, *tree); });
                return Result<>{};
            });
        }
        return {};
    }
    [[nodiscard]] UnitRange range() const {
        return split_units(options_.leaves, options_.place.ranks, options_.place.rank);
    }
    [[nodiscard]] Vector of_region(std::size_t region) const {
        auto const& of = regions_[region];
        return sums_[of.chunk].part(of.begin, of.elements);
    }

    TrainingLayout const* layout_;
    GradientSums options_;
    /// By chunk, what the last sum gave, and leaves that were added since.
    std::vector<Tree> trees_;
    std::vector<Vector> sums_;
    std::vector<std::int64_t> added_;
    std::vector<Region> regions_;
    std::int64_t early_ = 0;
    std::shared_ptr<detail::GradientChecksums> checksums_;
    /// Chunks of which something is not sent off: those that come first in memory.
    std::size_t left_ = 1;
    /// Whether the last leaf may still be read beside the stream.
    bool is_exchanging_ = false;
    /// Behind what its tasks know.
    std::unique_ptr<detail::ExchangeStream> beside_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
