// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/file_memory.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/train/detail/leaf_counter.hpp>
#include <shardwise/train/detail/share_exchange.hpp>
#include <shardwise/train/gradient_shares.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sum of a gradient over the leaves of a global batch as GradientTree makes it, with the same bits, by ranks that hold sums of their
/// shares alone (ZeRO 2). Leaves go to ranks in turns: in round r rank p has leaf r * ranks + p, whose gradient goes to the owners of
/// its elements at once. A rank holds one whole gradient, and log2(leaves) + 1 sums of its share.
///
/// The bytes are those of a reduce-scatter for each round, where GradientTree takes one for each node of a rank.
///
/// Memory  bytes(...), allocated at creation
class ShardedGradientTree {
public:
    using Vector = TensorView<float, 1, Host>;

    /// The leaves of a rank.
    [[nodiscard]] static std::int64_t count(std::int64_t leaves, TensorPlace const& place) {
        return split_units(leaves, place.ranks, place.rank).size();
    }
    /// What `create` allocates.
    ///
    /// Units  bytes
    [[nodiscard]] static Bytes bytes(GradientShares const& shares, std::int64_t leaves, TensorPlace const& place) {
        auto const sizes = sizes_of(detail::ShareExchange(shares, place), leaves, place);
        return Bytes{sizes.all() * static_cast<std::int64_t>(sizeof(float))};
    }
    /// What a rank takes from the others in one sum.
    [[nodiscard]] static CollectiveTraffic traffic(GradientShares const& shares, std::int64_t leaves,
                                                   TensorPlace const& place) {
        CollectiveTraffic out;
        detail::ShareExchange const exchange(shares, place);
        for (std::int64_t first = 0; first < leaves; first += place.ranks) {
            auto const others = std::min(place.ranks, leaves - first) - (first + place.rank < leaves ? 1 : 0);
            for (std::int64_t number = 0; number < exchange.parts(); ++number)
                out += exchange.swap_traffic(number, others);
        }
        return out;
    }

    /// With a folder all of it lies in a file there (offload).
    ///
    /// Errors  file_unwritable; invalid_argument for no leaves, regions that overlap or a rank that there is not; size_overflow, out_of_memory
    [[nodiscard]] static Result<ShardedGradientTree> create(HostContext& context, GradientShares const& shares,
                                                            std::int64_t leaves, TensorPlace const& place,
                                                            std::string const& folder = {}) {
        if (auto const checked = detail::check_place(subject, place); !checked) return checked.error();
        if (auto const checked = shares.check(); !checked) return checked.error();
        if (leaves < 1)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("leaves")
                .because("are none")
                .got(leaves)
                .at_least(1);
        ShardedGradientTree tree(shares, leaves, place);
        auto memory = detail::FileValues<float>::allocate(context, tree.sizes_.all(), folder);
        if (!memory) return memory.error();
        tree.memory_ = std::move(*memory);
        return Result<ShardedGradientTree>(std::move(tree));
    }

    /// The leaf of this rank that comes next.
    [[nodiscard]] std::int64_t next() const { return counter_.next + place_.rank; }
    /// Memory for its gradient, whatever it holds: the caller writes it, on the stream that `add` is given then.
    ///
    /// Shapes  [elements]
    /// Errors  invalid_argument where all leaves of the rank were added
    [[nodiscard]] Result<Vector> leaf() {
        if (next() >= leaves_)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("all leaves of this rank were added")
                .got(count(leaves_, place_))
                .fix("take the sum before the next batch begins");
        return Vector{memory_.data(), {exchange_.shares().elements()}};
    }
    /// Forgets what was added: the next leaf begins another sum.
    void clear() {
        counter_ = detail::LeafCounter({0, leaves_}, leaves_);
        is_new_ = true;
    }

    /// Takes the gradient in leaf() into the sum, with those of the round's other ranks: all call it, or `sum`.
    ///
    /// Order   on `stream`, after what wrote the gradient; this object and `comm` outlive what is in it
    /// Errors  invalid_argument where all leaves of the rank were added; as a collective
    template <Communicator C>
    [[nodiscard]] Result<> add(C& comm, HostStream& stream) {
        if (auto const left = leaf(); !left) return left.error();
        return add_round(comm, stream);
    }

    /// Takes part in the last round without a leaf: of ranks that have one less than others. `sum` does it where nobody did before.
    ///
    /// Order, Errors  as add
    template <Communicator C>
    [[nodiscard]] Result<> join(C& comm, HostStream& stream) {
        if (counter_.next >= leaves_ || next() < leaves_) return {};
        return add_round(comm, stream);
    }

    /// This rank's share of the sum over the leaves of all ranks. The next leaf() begins another sum; until then it stays.
    ///
    /// Shapes  [shares.size(ranks, rank)]
    /// Order   as add
    /// Errors  invalid_argument where leaves are missing, or for another group; as a collective
    template <Communicator C>
    [[nodiscard]] Result<Vector> sum(C& comm, HostStream& stream) {
        if (auto const done = join(comm, stream); !done) return done.error();
        if (counter_.next < leaves_)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("leaves of the batch are missing")
                .got(counter_.next)
                .expected(leaves_);
        clear();
        return Vector{slot(0), {sizes_.share}};
    }
    /// Takes what lies in a file out of memory: FileMemory::drop.
    void drop() const { memory_.drop(); }
    /// Where what this rank brought to the last sum was no number: see GradientTree::find_bad.
    [[nodiscard]] Optional<BadElement> find_bad() const { return exchange_.bad(); }

private:
    static constexpr std::string_view subject = "gradient tree";

    /// Units  floats
    struct Sizes {
        std::int64_t leaf = 0;
        std::int64_t share = 0;
        /// Sums of the share, each padded to where registers may load from.
        std::int64_t sums = 0;
        std::int64_t sent = 0;
        std::int64_t got = 0;

        [[nodiscard]] std::int64_t all() const { return leaf + sums * padded(share) + sent + got; }
    };
    [[nodiscard]] static std::int64_t padded(std::int64_t floats) { return round_up(floats, 16); }
    [[nodiscard]] static Sizes sizes_of(detail::ShareExchange const& exchange, std::int64_t leaves,
                                        TensorPlace const& place) {
        Sizes out{.leaf = padded(exchange.shares().elements()),
                  .share = exchange.shares().size(place.ranks, place.rank),
                  .sums = detail::LeafCounter::buffers({0, leaves}, leaves)};
        if (exchange.parts() == 0) return out;
        out.sent = padded(exchange.part_of_all(0));
        out.got = place.ranks * exchange.part(0, place.rank).size();
        return out;
    }

    ShardedGradientTree(GradientShares const& shares, std::int64_t leaves, TensorPlace const& place)
        : leaves_(leaves),
          place_(place),
          counter_({0, leaves}, leaves),
          exchange_(shares, place),
          sizes_(sizes_of(exchange_, leaves, place)) {}

    /// What comes from a rank goes into a sum, or a sum into the one before it.
    struct Move {
        std::int64_t rank = -1;
        std::int64_t sum = 0;
    };

    template <Communicator C>
    [[nodiscard]] Result<> add_round(C& comm, HostStream& stream) {
        if (comm.size() != place_.ranks || comm.rank() != place_.rank)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("was made for another group")
                .got(comm.size())
                .expected(place_.ranks);
        if (std::exchange(is_new_, false)) {
            stream.submit([this] {
                exchange_.look_anew();
                return Result<>{};
            });
        }
        auto const there = std::min(place_.ranks, leaves_ - counter_.next);
        List<Move> moves;
        for (std::int64_t rank = 0; rank < there; ++rank) {
            moves.push_back({rank, static_cast<std::int64_t>(counter_.nodes.size())});
            counter_.push(1);
            while (counter_.carries()) {
                moves.push_back({-1, static_cast<std::int64_t>(counter_.nodes.size()) - 2});
                counter_.carry();
            }
        }
        auto* const sent = slot(sizes_.sums);
        auto* const got = sent + sizes_.sent;
        auto const received = [there](std::int32_t rank) { return std::int64_t{rank < there ? 1 : 0}; };
        auto const own = received(comm.rank());
        for (std::int64_t number = 0; number < exchange_.parts(); ++number) {
            auto const part = exchange_.part(number, place_.rank);
            exchange_.swap(
                number, own, [this](std::int64_t) { return memory_.data(); }, received, sent, got, comm, stream);
            for (auto const& move : moves) {
                auto* const to = slot(move.sum) + part.begin;
                if (move.rank < 0) {
                    detail::add<Host>({to, {part.size()}}, slot(move.sum + 1) + part.begin, stream);
                    continue;
                }
                auto const* const from = got + move.rank * part.size();
                auto const copied = Host::copy<float>({from, {part.size()}}, {to, {part.size()}}, stream);
                if (!copied) return copied;
            }
            if (memory_.is_mapped()) {
                stream.submit([this] {
                    drop();
                    return Result<>{};
                });
            }
        }
        return {};
    }

    [[nodiscard]] float* slot(std::int64_t sum) { return memory_.data() + sizes_.leaf + sum * padded(sizes_.share); }

    std::int64_t leaves_;
    TensorPlace place_;
    /// Of the whole batch.
    detail::LeafCounter counter_;
    detail::ShareExchange exchange_;
    Sizes sizes_;
    /// Whether the next round is the first of a sum.
    bool is_new_ = true;
    detail::FileValues<float> memory_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
