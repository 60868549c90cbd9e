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
#include <shardwise/train/detail/bucket_exchange.hpp>
#include <shardwise/train/detail/exchange_stream.hpp>
#include <shardwise/train/detail/leaf_counter.hpp>
#include <shardwise/train/detail/share_exchange.hpp>
#include <shardwise/train/gradient_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
/// They do so bucket by bucket, a bucket being some regions: `reduce` sends one off while others of the last leaf are still computed. Each
/// element has its own tree, so that buckets change no bit.
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
                                     List<Bucket> const& buckets = {}, bool is_offloaded = false) {
        detail::TreePlan const plan(leaves, place.ranks, place.rank);
        auto const exchanged = exchange_floats(detail::bucket_exchanges(shares, place, buckets), plan, place);
        auto const floats = (is_offloaded ? 0 : sum_floats(shares.elements(), leaves, place)) + exchanged;
        return Bytes{floats * static_cast<std::int64_t>(sizeof(float))};
    }
    [[nodiscard]] static Bytes bytes(std::int64_t elements, std::int64_t leaves, TensorPlace const& place) {
        return bytes(GradientShares(elements), leaves, place);
    }
    /// What a rank takes from the others in one sum.
    [[nodiscard]] static CollectiveTraffic traffic(GradientShares const& shares, std::int64_t leaves,
                                                   TensorPlace const& place, TreeResult result,
                                                   List<Bucket> const& buckets = {}) {
        CollectiveTraffic out;
        if (place.ranks == 1) return out;
        detail::TreePlan const plan(leaves, place.ranks, place.rank);
        for (auto const& one : detail::bucket_exchanges(shares, place, buckets)) {
            for (std::int64_t number = 0; number < one.exchange.parts(); ++number) {
                out += one.exchange.swap_traffic(number, plan.nodes() - plan.own());
                if (result == TreeResult::whole) out += one.exchange.gather_traffic(number);
            }
        }
        return out;
    }

    /// `buckets` are of the regions' numbers, each in one; without any there is one of all. One rank has none. With a folder the sums lie
    /// in a file there (offload).
    ///
    /// Errors  invalid_argument for negative sizes, a rank that there is not, or buckets that are not of all regions; size_overflow,
    ///         out_of_memory, file_unwritable
    [[nodiscard]] static Result<GradientTree> create(HostContext& context, GradientShares const& shares,
                                                     std::int64_t leaves, TensorPlace const& place, TreeResult result,
                                                     List<Bucket> const& buckets = {}, std::string const& folder = {}) {
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
        GradientTree tree(shares, leaves, place, result, buckets);
        auto sums = detail::FileValues<float>::allocate(context, sum_floats(shares.elements(), leaves, place), folder);
        if (!sums) return sums.error();
        auto sent = Buffer<float, Host>::allocate(context, exchange_floats(tree.exchanges_, tree.plan_, place));
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
    void clear() {
        counter_ = detail::LeafCounter(counter_.range, leaves_);
        reduced_ = 0;
    }

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
        if (reduced_ == 0) {
            for (auto const to : carries(leaves)) add_up(to, 0, elements_, stream);
        }
        for (auto i = reduced_; reduced_ > 0 && i < exchanges_.size(); ++i) carry(exchanges_[i], stream);
        counter_.push(leaves);
        while (counter_.carries()) counter_.carry();
        return {};
    }

    /// Buckets that are exchanged, and those of the sum at work that were sent off.
    [[nodiscard]] std::size_t buckets() const { return exchanges_.size(); }
    [[nodiscard]] std::size_t reduced() const { return reduced_; }
    /// Whether the gradient in leaf() is the last of this rank.
    [[nodiscard]] bool is_last() const { return counter_.range.end - counter_.next == 1; }
    /// Whether all of this rank were added.
    [[nodiscard]] bool is_whole() const { return counter_.range.end == counter_.next; }
    /// Of the last leaf, whose gradient in leaf() is written in the regions of the next bucket: takes them into the sum, and exchanges
    /// them in `beside` while others are computed in `stream`. `add` and `sum` follow as ever; what was added is exchanged as it is. Ranks
    /// may differ in which buckets they reduce before `sum`, which does the rest.
    ///
    /// Order   on `stream`, after what wrote these regions, and then on `beside`, where nothing else uses `comm` before `sum`
    /// Errors  invalid_argument before the last leaf, without a bucket that is left, or for another group
    template <Communicator C>
    [[nodiscard]] Result<> reduce(C& comm, HostStream& stream, detail::ExchangeStream& beside) {
        if (auto const checked = detail::check_group(subject, place_, comm); !checked) return checked;
        if ((!is_last() && !is_whole()) || reduced_ == exchanges_.size() || place_.ranks == 1)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("has no bucket to reduce: it is not the last leaf, or none is left")
                .got(static_cast<std::int64_t>(reduced_))
                .expected(static_cast<std::int64_t>(exchanges_.size()));
        auto& one = exchanges_[reduced_];
        if (!is_whole()) carry(one, stream);
        beside.follow(stream);
        beside.bracket(comm, true);
        exchange(one, comm, beside.stream());
        beside.bracket(comm, false);
        ++reduced_;
        return {};
    }

    /// The sum over the leaves of all ranks, at its place in a vector of all elements: of the elements that this rank owns, or of all, as
    /// asked at creation. The next leaf() begins another sum; until then what is returned stays. `beside` is where buckets were reduced.
    ///
    /// Shapes  [elements], or [optimizer_share(elements, ranks, rank).size()]
    /// Order   on `stream`; this object and `comm` outlive what is in it
    /// Errors  invalid_argument where leaves are missing, or for another group; as a collective
    template <Communicator C>
    [[nodiscard]] Result<Vector> sum(C& comm, HostStream& stream, detail::ExchangeStream* beside = nullptr) {
        auto const& range = counter_.range;
        if (counter_.next != range.end) {
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("leaves of the batch are missing")
                .got(added())
                .expected(range.size());
        }
        if (auto const checked = detail::check_group(subject, place_, comm); !checked) return checked.error();
        Vector const all{slot(0), {elements_}};
        auto const first = reduced_;
        clear();
        if (place_.ranks == 1) return all;
        if (first > 0 && beside != nullptr) beside->join(stream);
        for (auto i = first; i < exchanges_.size(); ++i) exchange(exchanges_[i], comm, stream);
        if (!returns_share_) return all;
        auto const own = exchanges_.front().exchange.shares().range(0, place_.ranks, place_.rank);
        return all.part(own.begin, own.size());
    }
    /// Takes what lies in a file out of memory: FileMemory::drop.
    void drop() const { sums_.drop(); }

    /// Where what this rank brought to the last sum was no number: in the last region that has such an element. Asked once the stream is
    /// done, and before what was returned changes.
    [[nodiscard]] Optional<BadElement> find_bad() {
        if (place_.ranks == 1) {
            auto& all = exchanges_.front().exchange;
            all.look_anew();
            auto const& regions = all.shares().regions();
            for (std::size_t i = 0; i < regions.size(); ++i)
                all.look_at(i, slot(0) + regions[i].begin, regions[i].begin, regions[i].elements);
        }
        return detail::last_bad(exchanges_);
    }
    /// The bucket of a region.
    [[nodiscard]] std::size_t bucket_of(std::size_t region) const { return detail::bucket_of(exchanges_, region); }

private:
    static constexpr std::string_view subject = "gradient tree";
    /// Of a file that is added up: 4 MiB.
    static constexpr std::int64_t at_once = std::int64_t{1} << 20U;

    using Exchange = detail::BucketExchange;

    void submit_drop(HostStream& stream) const {
        if (!sums_.is_mapped()) return;
        stream.submit([this] {
            drop();
            return Result<>{};
        });
    }

    GradientTree(GradientShares const& shares, std::int64_t leaves, TensorPlace const& place, TreeResult result,
                 List<Bucket> const& buckets)
        : elements_(shares.elements()),
          leaves_(leaves),
          place_(place),
          result_(result),
          counter_(split_units(leaves, place.ranks, place.rank), leaves),
          plan_(leaves, place.ranks, place.rank),
          exchanges_(detail::bucket_exchanges(shares, place, buckets)) {}

    /// The result lies in the first of the sums, of which a rank without leaves has one, too.
    [[nodiscard]] static std::int64_t sum_floats(std::int64_t elements, std::int64_t leaves, TensorPlace const& place) {
        auto const count = std::max(buffers(split_units(leaves, place.ranks, place.rank), leaves), std::int64_t{1});
        return count * stride(elements);
    }
    [[nodiscard]] static std::int64_t exchange_floats(std::vector<Exchange> const& exchanges,
                                                      detail::TreePlan const& plan, TensorPlace const& place) {
        std::int64_t most = 0;
        for (auto const& [regions, exchange] : exchanges) {
            if (place.ranks == 1 || exchange.parts() == 0) continue;
            auto const got = plan.nodes() * exchange.part(0, place.rank).size();
            most = std::max(most, sent_floats(exchange, plan) + got);
        }
        return most;
    }
    /// What a rank sends; later what it gathers.
    [[nodiscard]] static std::int64_t sent_floats(detail::ShareExchange const& exchange, detail::TreePlan const& plan) {
        return std::max(plan.own(), std::int64_t{1}) * exchange.part_of_all(0);
    }

    /// The sums that take in those behind them once the next leaves are there.
    [[nodiscard]] List<std::int64_t> carries(std::int64_t leaves) const {
        List<std::int64_t> out;
        auto after = counter_;
        after.push(leaves);
        for (; after.carries(); after.carry()) out.push_back(static_cast<std::int64_t>(after.nodes.size()) - 2);
        return out;
    }
    /// Adds what lies in the next sum to one, of a file some at a time.
    void add_up(std::int64_t to, std::int64_t first, std::int64_t count, HostStream& stream) {
        auto const most = sums_.is_mapped() ? at_once : std::max<std::int64_t>(1, count);
        for (auto begin = first; begin < first + count; begin += most) {
            auto const some = std::min(most, first + count - begin);
            detail::add<Host>({slot(to) + begin, {some}}, slot(to + 1) + begin, stream);
            submit_drop(stream);
        }
    }
    /// Takes the last leaf into the sums of a bucket.
    void carry(Exchange const& bucket, HostStream& stream) {
        for (auto const to : carries(1)) {
            for (auto const& region : bucket.exchange.shares().regions())
                add_up(to, region.begin, region.elements, stream);
        }
    }
    template <Communicator C>
    void exchange(Exchange& bucket, C& comm, HostStream& stream) {
        stream.submit([to = &bucket.exchange] {
            to->look_anew();
            return Result<>{};
        });
        for (std::int64_t number = 0; number < bucket.exchange.parts(); ++number) {
            sum_part(bucket.exchange, number, comm, stream);
            submit_drop(stream);
        }
    }
    template <Communicator C>
    void sum_part(detail::ShareExchange& exchange, std::int64_t number, C& comm, HostStream& stream) {
        auto* const sent = exchanged_.data();
        auto* const got = sent + sent_floats(exchange, plan_);
        auto const part = exchange.part(number, place_.rank);
        auto const size = part.size();
        exchange.swap(
            number, plan_.own(), [this](std::int64_t i) { return slot(i); },
            [this](std::int32_t rank) { return plan_.counts()[static_cast<std::size_t>(rank)]; }, sent, got, comm,
            stream);
        for (auto const& step : plan_.after())
            detail::add<Host>({got + step.to * size, {size}}, got + step.from * size, stream);
        // What was here has been sent.
        if (result_ == TreeResult::whole) return exchange.gather(number, got, sent, slot(0), comm, stream);
        stream.submit([this, part, got, of = &exchange] {
            of->put(place_.rank, part, got, slot(0));
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
    /// By bucket, and how many of the sum at work were sent off.
    std::vector<Exchange> exchanges_;
    std::size_t reduced_ = 0;
    detail::FileValues<float> sums_;
    /// What is sent and what comes, a part of the shares at a time.
    Buffer<float, Host> exchanged_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
