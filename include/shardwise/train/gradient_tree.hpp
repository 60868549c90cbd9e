// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>
#include <shardwise/parallel/fixed_tree_sum.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/train/optimizer.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What becomes of a tree's sum.
enum class TreeResult : std::uint8_t {
    share,  // each rank gets the blocks that it owns: optimizer_share
    whole,  // each rank gets all
};

/// The sum of a gradient over the leaves of a global batch, by the tree of comm/deterministic_sum.hpp: the same bits for any number of
/// ranks that own whole leaves in order (split_units), and for any micro-batches.
///
/// A rank brings its leaves one after another. What has both halves is added up at once, as a binary counter carries, so that
/// there are never more than log2(leaves) + 1 sums, twice as many where a rank's leaves are no whole node. The ranks then exchange the
/// sums of their nodes; where each rank's leaves are one node, the bytes are those of an ordinary reduce-scatter.
///
/// Memory  `buffers(range, leaves)` times the elements, and what the exchange takes; allocated at creation
class GradientTree {
public:
    using Vector = TensorView<float, 1, Host>;

    /// Sums that a rank with these leaves holds at a time, the leaf that is being computed included.
    [[nodiscard]] static std::int64_t buffers(UnitRange range, std::int64_t leaves) {
        Counter counter(range, leaves);
        std::int64_t most = 0;
        for (std::int64_t leaf = range.begin; leaf < range.end; ++leaf) {
            most = std::max(most, static_cast<std::int64_t>(counter.nodes.size()) + 1);
            counter.push(1);
            while (counter.carries()) counter.carry();
        }
        return most;
    }
    /// What `create` allocates.
    ///
    /// Units  bytes
    [[nodiscard]] static Bytes bytes(std::int64_t elements, std::int64_t leaves, TensorPlace const& place,
                                     TreeResult result) {
        auto const range = split_units(leaves, place.ranks, place.rank);
        auto const blocks = ceil_divide(elements, width);
        auto const floats = buffers(range, leaves) * blocks * width + exchange_floats(blocks, leaves, place, result);
        return Bytes{floats * static_cast<std::int64_t>(sizeof(float))};
    }

    /// Errors  invalid_argument for negative sizes or a rank that there is not; size_overflow, out_of_memory
    [[nodiscard]] static Result<GradientTree> create(HostContext& context, std::int64_t elements, std::int64_t leaves,
                                                     TensorPlace const& place, TreeResult result) {
        if (auto const checked = detail::check_place(subject, place); !checked) return checked.error();
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject);
        if (elements < 0) return bad.at("elements").because("are negative").got(elements).at_least(0);
        if (leaves < 1) return bad.at("leaves").because("are none").got(leaves).at_least(1);
        if (elements > most_elements) return Error{ErrorCode::size_overflow}.in(subject).at("elements").got(elements);
        auto const range = split_units(leaves, place.ranks, place.rank);
        auto const blocks = ceil_divide(elements, width);
        GradientTree tree(elements, leaves, place, result, range);
        auto sums = Buffer<float, Host>::allocate(context, buffers(range, leaves) * blocks * width);
        if (!sums) return sums.error();
        auto exchange = Buffer<float, Host>::allocate(context, exchange_floats(blocks, leaves, place, result));
        if (!exchange) return exchange.error();
        tree.sums_ = std::move(*sums);
        tree.exchange_ = std::move(*exchange);
        // Blocks are whole: what a last one has beyond the elements is 0.
        std::fill_n(tree.sums_.data(), tree.sums_.size(), 0.0F);
        return Result<GradientTree>(std::move(tree));
    }

    /// The leaves of this rank.
    [[nodiscard]] UnitRange range() const { return counter_.range; }
    /// Leaves that were added.
    [[nodiscard]] std::int64_t added() const { return counter_.next - counter_.range.begin; }

    /// Forgets what was added: the next leaf begins another sum.
    void clear() { counter_ = Counter(counter_.range, leaves_); }

    /// Memory for the gradient of the next leaf, whatever it holds: the caller writes it, on the stream that `add` is given then.
    ///
    /// Shapes  [elements]
    /// Errors  invalid_argument where all leaves of the rank were added
    [[nodiscard]] Result<Vector> leaf() {
        if (auto const left = check_left(); !left) return left.error();
        return Vector{slot(static_cast<std::int64_t>(counter_.nodes.size())), {elements_}};
    }
    /// Takes the gradient in leaf() into the sum: of one leaf, or of the next ones that a micro-batch has summed by the tree's rule
    /// (sum_leaves, or a product that adds up in this order). Several leaves are one node: a power of two of them that begins at a
    /// multiple of itself, or all that are left of the batch.
    ///
    /// Order   on `stream`, after what wrote the gradient; this object outlives what is in it
    /// Errors  invalid_argument where all leaves of the rank were added, or these are no node
    [[nodiscard]] Result<> add(HostStream& stream, std::int64_t leaves = 1) {
        if (auto const left = check_left(); !left) return left;
        if (!counter_.is_node(leaves)) {
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("leaves")
                .because("behind leaf " + std::to_string(counter_.next) + " are no node of the tree")
                .got(leaves)
                .fix("add powers of two that begin at a multiple of themselves");
        }
        counter_.push(leaves);
        while (counter_.carries()) {
            auto const last = static_cast<std::int64_t>(counter_.nodes.size()) - 1;
            detail::add<Host>({slot(last - 1), {elements_}}, slot(last), stream);
            counter_.carry();
        }
        return {};
    }

    /// The sum over the leaves of all ranks: this rank's share of it or all of it, as asked at creation. The next leaf() begins
    /// another sum; until then what is returned stays.
    ///
    /// Shapes  [optimizer_share(elements, ranks, rank).size()] or [elements]
    /// Order   on `stream`; this object and `comm` outlive what is in it
    /// Errors  invalid_argument where leaves are missing, or for another group; as a collective
    template <Communicator C>
    [[nodiscard]] Result<Vector> sum(C& comm, HostStream& stream) {
        auto const& range = counter_.range;
        if (counter_.next != range.end) {
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("leaves of the batch are missing")
                .got(added())
                .expected(range.size());
        }
        auto const blocks = ceil_divide(elements_, width);
        if (place_.ranks == 1) {
            if (comm.size() != 1)
                return Error{ErrorCode::invalid_argument}.in(subject).because("was made for one rank").got(comm.size());
            clear();
            return Vector{slot(0), {elements_}};
        }
        auto const own = split_units(blocks, place_.ranks, place_.rank);
        auto const rows = result_ == TreeResult::share ? own.size() : blocks;
        TensorView<float, 2, Host> const out{exchange_.data(), {rows, width}};
        Vector const workspace{exchange_.data() + rows * width, {exchange_.size() - rows * width}};
        auto const copy = [this, &stream](UnitRange part, TensorView<float, 3, Host> nodes) -> Result<> {
            auto const size = part.size() * width;
            for (std::int64_t node = 0; node < nodes.extent(0); ++node) {
                auto const* const from = slot(node) + part.begin * width;
                auto const copied = Host::copy<float>({from, {size}}, {nodes.data() + node * size, {size}}, stream);
                if (!copied) return copied;
            }
            return {};
        };
        auto const done = result_ == TreeResult::share ? tree_.sum_scattered(copy, blocks, out, workspace, comm, stream)
                                                       : tree_.sum(copy, out, workspace, comm, stream);
        if (!done) return done.error();
        clear();
        auto const elements =
            result_ == TreeResult::share ? optimizer_share(elements_, place_.ranks, place_.rank).size() : elements_;
        return Vector{exchange_.data(), {elements}};
    }

private:
    static constexpr std::string_view subject = "gradient tree";
    /// Shares are whole blocks of this many elements.
    static constexpr std::int64_t width = optimizer_share_multiple;
    /// What 63 bits count in bytes, with capacity for all buffers.
    static constexpr std::int64_t most_elements = std::int64_t{1} << 48U;

    /// The nodes that the leaves so far make up, in order.
    struct Counter {
        Counter(UnitRange of, std::int64_t all) : range(of), leaves(all), next(of.begin) {}

        /// Whether the next `count` leaves are one node that the rank owns.
        [[nodiscard]] bool is_node(std::int64_t count) const {
            if (count < 1 || count > range.end - next) return false;
            auto const size = sum_root(count).size;
            return next % size == 0 && (size == count || next + count == leaves);
        }
        void push(std::int64_t count) {
            nodes.push_back({next, sum_root(count).size});
            next += count;
        }
        /// Whether the last two nodes are the halves of one that the rank owns: of equal size, or after the last leaf of the batch.
        [[nodiscard]] bool carries() const {
            if (nodes.size() < 2) return false;
            auto const& left = nodes[nodes.size() - 2];
            auto const& right = nodes.back();
            bool const is_half = left.begin % (2 * left.size) == 0 && left.begin + left.size == right.begin;
            return is_half && (left.size == right.size || next == leaves);
        }
        void carry() {
            nodes.pop_back();
            nodes.back().size *= 2;
        }

        UnitRange range;
        std::int64_t leaves;
        std::int64_t next;
        List<SumNode> nodes;
    };

    GradientTree(std::int64_t elements, std::int64_t leaves, TensorPlace const& place, TreeResult result,
                 UnitRange range)
        : elements_(elements),
          leaves_(leaves),
          place_(place),
          result_(result),
          counter_(range, leaves),
          tree_(leaves, width, place, TreeParts::nodes) {}

    [[nodiscard]] static std::int64_t exchange_floats(std::int64_t blocks, std::int64_t leaves,
                                                      TensorPlace const& place, TreeResult result) {
        if (place.ranks == 1) return 0;
        FixedTreeSum<Host> const tree(leaves, width, place, TreeParts::nodes);
        if (result == TreeResult::whole) return blocks * width + tree.workspace(blocks);
        return split_units(blocks, place.ranks, place.rank).size() * width + tree.workspace_scattered(blocks);
    }

    [[nodiscard]] Result<> check_left() const {
        if (counter_.next < counter_.range.end) return {};
        return Error{ErrorCode::invalid_argument}
            .in(subject)
            .because("all leaves of this rank were added")
            .got(added())
            .fix("take the sum before the next batch begins");
    }
    [[nodiscard]] float* slot(std::int64_t i) { return sums_.data() + i * ceil_divide(elements_, width) * width; }

    std::int64_t elements_;
    std::int64_t leaves_;
    TensorPlace place_;
    TreeResult result_;
    Counter counter_;
    FixedTreeSum<Host> tree_;
    Buffer<float, Host> sums_;
    /// The result, and what the ranks exchange.
    Buffer<float, Host> exchange_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
