// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/file_memory.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>
#include <shardwise/parallel/detail/tree_plan.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/train/detail/leaf_counter.hpp>
#include <shardwise/train/detail/share_exchange.hpp>
#include <shardwise/train/gradient_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What becomes of a tree's sum.
enum class TreeResult : std::uint8_t {
    share,  // each rank gets the elements that it owns: GradientShares
    whole,  // each rank gets all
};

/// The sum of a gradient over the leaves of a global batch, by the tree of comm/deterministic_sum.hpp: the same bits for any number of
/// ranks that own whole leaves in order (split_units), and for any micro-batches.
///
/// A rank brings its leaves one after another. What has both halves is added up at once, as a binary counter carries, so that
/// there are never more than log2(leaves) + 1 sums, twice as many where a rank's leaves are no whole node. The ranks then exchange the
/// sums of their nodes; where each rank's leaves are one node, the bytes are those of an ordinary reduce-scatter.
///
/// Memory  `buffers(range, leaves)` times the elements, and what the exchange takes, 4 MiB for each node; allocated at creation
class GradientTree {
public:
    using Vector = TensorView<float, 1, Host>;

    /// Sums that a rank with these leaves holds at a time, the leaf that is being computed included.
    [[nodiscard]] static std::int64_t buffers(UnitRange range, std::int64_t leaves) {
        return detail::LeafCounter::buffers(range, leaves);
    }
    /// What `create` allocates; of sums that lie in a file what ranks exchange alone.
    ///
    /// Units  bytes
    [[nodiscard]] static Bytes bytes(GradientShares const& shares, std::int64_t leaves, TensorPlace const& place,
                                     bool is_offloaded = false) {
        detail::ShareExchange const exchange(shares, place);
        detail::TreePlan const plan(leaves, place.ranks, place.rank);
        auto const sums = is_offloaded ? 0 : sum_floats(shares.elements(), leaves, place);
        auto const floats = sums + exchange_floats(exchange, plan, place);
        return Bytes{floats * static_cast<std::int64_t>(sizeof(float))};
    }
    [[nodiscard]] static Bytes bytes(std::int64_t elements, std::int64_t leaves, TensorPlace const& place) {
        return bytes(GradientShares(elements), leaves, place);
    }
    /// What a rank takes from the others in one sum.
    [[nodiscard]] static CollectiveTraffic traffic(GradientShares const& shares, std::int64_t leaves,
                                                   TensorPlace const& place, TreeResult result) {
        CollectiveTraffic out;
        if (place.ranks == 1) return out;
        detail::ShareExchange const exchange(shares, place);
        detail::TreePlan const plan(leaves, place.ranks, place.rank);
        for (std::int64_t number = 0; number < exchange.parts(); ++number) {
            out += exchange.swap_traffic(number, plan.nodes() - plan.own());
            if (result == TreeResult::whole) out += exchange.gather_traffic(number);
        }
        return out;
    }

    /// With a folder the sums lie in a file there (offload).
    ///
    /// Errors  invalid_argument for negative sizes or a rank that there is not; size_overflow, out_of_memory, file_unwritable
    [[nodiscard]] static Result<GradientTree> create(HostContext& context, GradientShares const& shares,
                                                     std::int64_t leaves, TensorPlace const& place, TreeResult result,
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
        GradientTree tree(shares, leaves, place, result);
        auto sums = detail::FileValues<float>::allocate(context, sum_floats(shares.elements(), leaves, place), folder);
        if (!sums) return sums.error();
        auto sent = Buffer<float, Host>::allocate(context, exchange_floats(tree.exchange_, tree.plan_, place));
        if (!sent) return sent.error();
        tree.sums_ = std::move(*sums);
        tree.exchanged_ = std::move(*sent);
        return Result<GradientTree>(std::move(tree));
    }
    /// Of one region, of whose sum `share` returns the share alone.
    [[nodiscard]] static Result<GradientTree> create(HostContext& context, std::int64_t elements, std::int64_t leaves,
                                                     TensorPlace const& place, TreeResult result) {
        auto made = create(context, GradientShares(elements), leaves, place, result);
        if (made) made->returns_share_ = result == TreeResult::share;
        return made;
    }

    /// The leaves of this rank.
    [[nodiscard]] UnitRange range() const { return counter_.range; }
    /// Leaves that were added.
    [[nodiscard]] std::int64_t added() const { return counter_.next - counter_.range.begin; }

    /// Forgets what was added: the next leaf begins another sum.
    void clear() { counter_ = detail::LeafCounter(counter_.range, leaves_); }

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
                .because("after leaf " + std::to_string(counter_.next) + " are no node of the tree")
                .got(leaves)
                .fix("add powers of two that begin at a multiple of themselves");
        }
        counter_.push(leaves);
        while (counter_.carries()) {
            auto const last = static_cast<std::int64_t>(counter_.nodes.size()) - 1;
            // Of a file some at a time.
            auto const most = sums_.is_mapped() ? at_once : std::max<std::int64_t>(1, elements_);
            for (std::int64_t begin = 0; begin < elements_; begin += most) {
                auto const count = std::min(most, elements_ - begin);
                detail::add<Host>({slot(last - 1) + begin, {count}}, slot(last) + begin, stream);
                submit_drop(stream);
            }
            counter_.carry();
        }
        return {};
    }

    /// The sum over the leaves of all ranks, at its place in a vector of all elements: of the elements that this rank owns, or of all, as
    /// asked at creation. The next leaf() begins another sum; until then what is
    /// returned stays.
    ///
    /// Shapes  [elements], or [optimizer_share(elements, ranks, rank).size()]
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
        if (comm.size() != place_.ranks || comm.rank() != place_.rank)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("was made for another group")
                .got(comm.size())
                .expected(place_.ranks);
        Vector const all{slot(0), {elements_}};
        clear();
        if (place_.ranks == 1) return all;
        stream.submit([this] {
            exchange_.look_anew();
            return Result<>{};
        });
        for (std::int64_t number = 0; number < exchange_.parts(); ++number) {
            sum_part(number, comm, stream);
            submit_drop(stream);
        }
        if (!returns_share_) return all;
        auto const own = exchange_.shares().range(0, place_.ranks, place_.rank);
        return all.part(own.begin, own.size());
    }
    /// Takes what lies in a file out of memory: FileMemory::drop.
    void drop() const { sums_.drop(); }

    /// Where what this rank brought to the last sum was no number: in the last region that has such an element. Asked once the stream is
    /// done, and before what was returned changes.
    [[nodiscard]] Optional<BadElement> find_bad() {
        if (place_.ranks > 1) return exchange_.bad();
        exchange_.look_anew();
        auto const& regions = exchange_.shares().regions();
        for (std::size_t i = 0; i < regions.size(); ++i)
            exchange_.look_at(i, slot(0) + regions[i].begin, regions[i].begin, regions[i].elements);
        return exchange_.bad();
    }

private:
    static constexpr std::string_view subject = "gradient tree";
    /// Of a file that is added up: 4 MiB.
    static constexpr std::int64_t at_once = std::int64_t{1} << 20U;

    void submit_drop(HostStream& stream) const {
        if (!sums_.is_mapped()) return;
        stream.submit([this] {
            drop();
            return Result<>{};
        });
    }

    GradientTree(GradientShares const& shares, std::int64_t leaves, TensorPlace const& place, TreeResult result)
        : elements_(shares.elements()),
          leaves_(leaves),
          place_(place),
          result_(result),
          counter_(split_units(leaves, place.ranks, place.rank), leaves),
          plan_(leaves, place.ranks, place.rank),
          exchange_(shares, place) {}

    /// The result lies in the first of the sums, of which a rank without leaves has one, too.
    [[nodiscard]] static std::int64_t sum_floats(std::int64_t elements, std::int64_t leaves, TensorPlace const& place) {
        auto const count = std::max(buffers(split_units(leaves, place.ranks, place.rank), leaves), std::int64_t{1});
        return count * stride(elements);
    }
    [[nodiscard]] static std::int64_t exchange_floats(detail::ShareExchange const& exchange,
                                                      detail::TreePlan const& plan, TensorPlace const& place) {
        if (place.ranks == 1 || exchange.parts() == 0) return 0;
        return sent_floats(exchange, plan) + plan.nodes() * exchange.part(0, place.rank).size();
    }
    /// What a rank sends; later what it gathers.
    [[nodiscard]] static std::int64_t sent_floats(detail::ShareExchange const& exchange, detail::TreePlan const& plan) {
        return std::max(plan.own(), std::int64_t{1}) * exchange.part_of_all(0);
    }

    template <Communicator C>
    void sum_part(std::int64_t number, C& comm, HostStream& stream) {
        auto* const sent = exchanged_.data();
        auto* const got = sent + sent_floats(exchange_, plan_);
        auto const part = exchange_.part(number, place_.rank);
        auto const size = part.size();
        exchange_.swap(
            number, plan_.own(), [this](std::int64_t i) { return slot(i); },
            [this](std::int32_t rank) { return plan_.counts()[static_cast<std::size_t>(rank)]; }, sent, got, comm,
            stream);
        for (auto const& step : plan_.after())
            detail::add<Host>({got + step.to * size, {size}}, got + step.from * size, stream);
        // What was here has been sent.
        if (result_ == TreeResult::whole) return exchange_.gather(number, got, sent, slot(0), comm, stream);
        stream.submit([this, part, got] {
            exchange_.put(place_.rank, part, got, slot(0));
            return Result<>{};
        });
    }

    [[nodiscard]] Result<> check_left() const {
        if (counter_.next < counter_.range.end) return {};
        return Error{ErrorCode::invalid_argument}
            .in(subject)
            .because("all leaves of this rank were added")
            .got(added())
            .fix("take the sum before the next batch begins");
    }
    /// Each sum begins where registers may load from.
    [[nodiscard]] static std::int64_t stride(std::int64_t elements) { return round_up(elements, 16); }
    [[nodiscard]] float* slot(std::int64_t i) { return sums_.data() + i * stride(elements_); }

    std::int64_t elements_;
    std::int64_t leaves_;
    TensorPlace place_;
    TreeResult result_;
    bool returns_share_ = false;
    detail::LeafCounter counter_;
    detail::TreePlan plan_;
    detail::ShareExchange exchange_;
    detail::FileValues<float> sums_;
    /// What is sent and what comes, a part of the shares at a time.
    Buffer<float, Host> exchanged_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
