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
#include <shardwise/train/detail/bucket_exchange.hpp>
#include <shardwise/train/detail/exchange_stream.hpp>
#include <shardwise/train/detail/leaf_counter.hpp>
#include <shardwise/train/gradient_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sum of a gradient over the leaves of a global batch as GradientTree makes it, with the same bits, by ranks that hold sums of their
/// shares alone (ZeRO 2). Leaves go to ranks in turns: in round r rank p has leaf r * ranks + p, whose gradient goes to the owners of
/// its elements at once. A rank holds one whole gradient, and log2(leaves) + 1 sums of its share.
///
/// The bytes are those of a reduce-scatter for each round, where GradientTree takes one for each node of a rank. A round goes bucket by
/// bucket, a bucket being some regions: `reduce` sends one off while others of the leaf are still computed. Buckets change no bit.
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
    [[nodiscard]] static Bytes bytes(GradientShares const& shares, std::int64_t leaves, TensorPlace const& place,
                                     List<Bucket> const& buckets = {}) {
        auto const sizes = sizes_of(shares, detail::bucket_exchanges(shares, place, buckets), leaves, place);
        return Bytes{sizes.all() * static_cast<std::int64_t>(sizeof(float))};
    }
    /// What a rank takes from the others in one sum.
    [[nodiscard]] static CollectiveTraffic traffic(GradientShares const& shares, std::int64_t leaves,
                                                   TensorPlace const& place, List<Bucket> const& buckets = {}) {
        CollectiveTraffic out;
        auto const exchanges = detail::bucket_exchanges(shares, place, buckets);
        for (std::int64_t first = 0; first < leaves; first += place.ranks) {
            auto const others = std::min(place.ranks, leaves - first) - (first + place.rank < leaves ? 1 : 0);
            for (auto const& one : exchanges) {
                for (std::int64_t number = 0; number < one.exchange.parts(); ++number)
                    out += one.exchange.swap_traffic(number, others);
            }
        }
        return out;
    }

    /// `buckets` are as GradientTree's. With a folder all of it lies in a file there (offload).
    ///
    /// Errors  file_unwritable; invalid_argument for no leaves, regions that overlap, buckets that are not of all regions, or a rank that
    ///         there is not; size_overflow, out_of_memory
    [[nodiscard]] static Result<ShardedGradientTree> create(HostContext& context, GradientShares const& shares,
                                                            std::int64_t leaves, TensorPlace const& place,
                                                            List<Bucket> const& buckets = {},
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
        if (auto const checked = detail::check_buckets(shares, buckets); !checked) return checked.error();
        ShardedGradientTree tree(shares, leaves, place, buckets);
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
        return Vector{memory_.data(), {elements_}};
    }
    /// Forgets what was added: the next leaf begins another sum.
    void clear() {
        counter_ = detail::LeafCounter({0, leaves_}, leaves_);
        reduced_ = 0;
    }

    /// Buckets that are exchanged, and those of the round at work that were sent off.
    [[nodiscard]] std::size_t buckets() const { return exchanges_.size(); }
    [[nodiscard]] std::size_t reduced() const { return reduced_; }
    /// Of the gradient in leaf(), which is written in the regions of the next bucket: exchanges these in `beside` while others are computed
    /// in `stream`. `add` follows as ever; ranks may differ in which buckets they reduce before it.
    ///
    /// Order   on `stream`, after what wrote these regions, and then on `beside`, where nothing else uses `comm` before `sum`
    /// Errors  invalid_argument where all leaves of the rank were added, without a bucket that is left, or for another group
    template <Communicator C>
    [[nodiscard]] Result<> reduce(C& comm, HostStream& stream, detail::ExchangeStream& beside) {
        if (auto const left = leaf(); !left) return left.error();
        if (auto const checked = detail::check_group(subject, place_, comm); !checked) return checked;
        if (reduced_ == exchanges_.size())
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("has no bucket of this round left to reduce")
                .got(static_cast<std::int64_t>(reduced_));
        return exchange_until(reduced_ + 1, comm, stream, &beside);
    }

    /// Takes the gradient in leaf() into the sum, with those of the round's other ranks: all call it, or `sum`. With `beside` what was not
    /// reduced is exchanged there as well; leaf() is then not written to before `stream` has joined it.
    ///
    /// Order   on `stream`, after what wrote the gradient; this object and `comm` outlive what is in it
    /// Errors  invalid_argument where all leaves of the rank were added; as a collective
    template <Communicator C>
    [[nodiscard]] Result<> add(C& comm, HostStream& stream, detail::ExchangeStream* beside = nullptr) {
        if (auto const left = leaf(); !left) return left.error();
        return add_round(comm, stream, beside);
    }

    /// Takes part in the last round without a leaf: of ranks that have one less than others. `sum` does it where nobody did before.
    ///
    /// Order, Errors  as add
    template <Communicator C>
    [[nodiscard]] Result<> join(C& comm, HostStream& stream, detail::ExchangeStream* beside = nullptr) {
        if (counter_.next >= leaves_ || next() < leaves_) return {};
        return add_round(comm, stream, beside);
    }

    /// This rank's share of the sum over the leaves of all ranks, bucket by bucket: `place` says where a region begins. The next leaf()
    /// begins another sum; until then it stays.
    ///
    /// Shapes  [shares.size(ranks, rank)]
    /// Order   as add
    /// Errors  invalid_argument where leaves are missing, or for another group; as a collective
    template <Communicator C>
    [[nodiscard]] Result<Vector> sum(C& comm, HostStream& stream, detail::ExchangeStream* beside = nullptr) {
        if (auto const done = join(comm, stream, beside); !done) return done.error();
        if (counter_.next < leaves_)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("leaves of the batch are missing")
                .got(counter_.next)
                .expected(leaves_);
        clear();
        if (beside != nullptr) beside->join(stream);
        return Vector{slot(0), {sizes_.share}};
    }
    /// Of a region of the shares, where this rank's part begins in the sum.
    [[nodiscard]] std::int64_t place(std::size_t region) const {
        std::int64_t at = 0;
        for (auto const& one : exchanges_) {
            for (std::size_t i = 0; i < one.exchange.shares().regions().size(); ++i) {
                if (one.region(i) == region) return at;
                at += one.exchange.shares().range(i, place_.ranks, place_.rank).size();
            }
        }
        return at;
    }
    [[nodiscard]] std::size_t bucket_of(std::size_t region) const { return detail::bucket_of(exchanges_, region); }
    /// Takes what lies in a file out of memory: FileMemory::drop.
    void drop() const { memory_.drop(); }
    /// Where what this rank brought to the last sum was no number: see GradientTree::find_bad.
    [[nodiscard]] Optional<BadElement> find_bad() const { return detail::last_bad(exchanges_); }

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
    using Exchanges = std::vector<detail::BucketExchange>;

    [[nodiscard]] static Sizes sizes_of(GradientShares const& shares, Exchanges const& exchanges, std::int64_t leaves,
                                        TensorPlace const& place) {
        Sizes out{.leaf = padded(shares.elements()),
                  .share = shares.size(place.ranks, place.rank),
                  .sums = detail::LeafCounter::buffers({0, leaves}, leaves)};
        for (auto const& [regions, exchange] : exchanges) {
            if (exchange.parts() == 0) continue;
            out.sent = std::max(out.sent, padded(exchange.part_of_all(0)));
            out.got = std::max(out.got, place.ranks * exchange.part(0, place.rank).size());
        }
        return out;
    }

    ShardedGradientTree(GradientShares const& shares, std::int64_t leaves, TensorPlace const& place,
                        List<Bucket> const& buckets)
        : elements_(shares.elements()),
          leaves_(leaves),
          place_(place),
          counter_({0, leaves}, leaves),
          exchanges_(detail::bucket_exchanges(shares, place, buckets)),
          sizes_(sizes_of(shares, exchanges_, leaves, place)) {}

    /// What comes from a rank goes into a sum, or a sum into the one before it.
    struct Move {
        std::int64_t rank = -1;
        std::int64_t sum = 0;
    };

    /// Ends a round.
    template <Communicator C>
    [[nodiscard]] Result<> add_round(C& comm, HostStream& stream, detail::ExchangeStream* beside) {
        if (auto const checked = detail::check_group(subject, place_, comm); !checked) return checked;
        if (auto const done = exchange_until(exchanges_.size(), comm, stream, beside); !done) return done;
        (void)moves(counter_);
        reduced_ = 0;
        return {};
    }
    /// What becomes of a round's leaves, which are counted.
    [[nodiscard]] List<Move> moves(detail::LeafCounter& counter) const {
        auto const there = std::min(place_.ranks, leaves_ - counter.next);
        List<Move> out;
        for (std::int64_t rank = 0; rank < there; ++rank) {
            out.push_back({rank, static_cast<std::int64_t>(counter.nodes.size())});
            counter.push(1);
            while (counter.carries()) {
                out.push_back({-1, static_cast<std::int64_t>(counter.nodes.size()) - 2});
                counter.carry();
            }
        }
        return out;
    }
    /// Exchanges the buckets of a round up to one.
    template <Communicator C>
    [[nodiscard]] Result<> exchange_until(std::size_t end, C& comm, HostStream& stream,
                                          detail::ExchangeStream* beside) {
        if (reduced_ == end) return {};
        auto counter = counter_;
        auto const all = moves(counter);
        if (beside != nullptr) {
            beside->follow(stream);
            beside->bracket(comm, true);
        }
        for (; reduced_ < end; ++reduced_) {
            auto const done = exchange(reduced_, all, comm, beside == nullptr ? stream : beside->stream());
            if (!done) return done;
        }
        if (beside != nullptr) beside->bracket(comm, false);
        return {};
    }
    template <Communicator C>
    [[nodiscard]] Result<> exchange(std::size_t bucket, List<Move> const& moves, C& comm, HostStream& stream) {
        auto& exchange = exchanges_[bucket].exchange;
        if (counter_.next == 0) {
            stream.submit([&exchange] {
                exchange.look_anew();
                return Result<>{};
            });
        }
        std::int64_t begin = 0;
        for (std::size_t i = 0; i < bucket; ++i)
            begin += exchanges_[i].exchange.shares().size(place_.ranks, place_.rank);
        auto const there = std::min(place_.ranks, leaves_ - counter_.next);
        auto* const sent = slot(sizes_.sums);
        auto* const got = sent + sizes_.sent;
        auto const received = [there](std::int32_t rank) { return std::int64_t{rank < there ? 1 : 0}; };
        auto const own = received(comm.rank());
        for (std::int64_t number = 0; number < exchange.parts(); ++number) {
            auto const part = exchange.part(number, place_.rank);
            exchange.swap(
                number, own, [this](std::int64_t) { return memory_.data(); }, received, sent, got, comm, stream);
            for (auto const& move : moves) {
                auto* const to = slot(move.sum) + begin + part.begin;
                if (move.rank < 0) {
                    detail::add<Host>({to, {part.size()}}, slot(move.sum + 1) + begin + part.begin, stream);
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

    std::int64_t elements_;
    std::int64_t leaves_;
    TensorPlace place_;
    /// Of the whole batch.
    detail::LeafCounter counter_;
    /// By bucket, and how many of the round at work were sent off.
    Exchanges exchanges_;
    std::size_t reduced_ = 0;
    Sizes sizes_;
    detail::FileValues<float> memory_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
