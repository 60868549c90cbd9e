// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/find_bad.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/train/gradient_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A gradient that is infinite or undefined, by its region among a rank's GradientShares and its element there.
struct BadElement {
    std::size_t region = 0;
    std::int64_t element = 0;

    friend bool operator==(BadElement const&, BadElement const&) = default;
};

namespace detail {

/// How ranks exchange sums of whole vectors so that each gets those of its share: in parts of the shares, which bound the memory. What is
/// sent is looked at: a gradient that is no number is found where it came from.
class ShareExchange {
public:
    using Vector = TensorView<float, 1, Host>;

    ShareExchange(GradientShares shares, TensorPlace const& place) : shares_(std::move(shares)), place_(place) {
        std::int64_t most = 0;
        for (std::int64_t rank = 0; rank < place.ranks; ++rank) most = std::max(most, shares_.size(place.ranks, rank));
        part_ = std::min(std::max(part_elements / place.ranks, std::int64_t{1024}), most);
        parts_ = part_ > 0 ? ceil_divide(most, part_) : 0;
        bad_ = List<std::int64_t>(shares_.regions().size(), -1);
    }

    [[nodiscard]] GradientShares const& shares() const { return shares_; }
    [[nodiscard]] std::int64_t parts() const { return parts_; }
    /// What part `number` has of a rank's share.
    [[nodiscard]] UnitRange part(std::int64_t number, std::int64_t rank) const {
        auto const size = shares_.size(place_.ranks, rank);
        return {std::min(number * part_, size), std::min((number + 1) * part_, size)};
    }
    /// The elements of a part of all ranks' shares together.
    [[nodiscard]] std::int64_t part_of_all(std::int64_t number) const {
        std::int64_t sum = 0;
        for (std::int64_t rank = 0; rank < place_.ranks; ++rank) sum += part(number, rank).size();
        return sum;
    }

    /// Sends every rank its part of `count` sums, `from(i)`, and takes those of this rank's part: `received(rank)` of each.
    ///
    /// Shapes  sent [count * part_of_all(number)]; got [sum of received, part(number, rank).size()]
    /// Order   on `stream`; this object, `comm` and what the functions refer to outlive what is in it
    template <Communicator C, class From, class Received>
    void swap(std::int64_t number, std::int64_t count, From from, Received received, float* sent, float* got, C& comm,
              HostStream& stream) {
        stream.submit([this, number, count, from, sent] {
            auto* to = sent;
            for (std::int64_t rank = 0; rank < place_.ranks; ++rank) {
                auto const own = part(number, rank);
                for (std::int64_t i = 0; i < count; ++i) {
                    auto const* const sum = from(i);
                    shares_.visit(place_.ranks, rank, own, [&](auto region, auto place, auto at, auto size) {
                        std::copy_n(sum + place, size, to + at - own.begin);
                        look_at(region, sum + place, place, size);
                    });
                    to += own.size();
                }
            }
            return Result<>{};
        });
        auto const size = part(number, place_.rank).size();
        auto const sum = [&](auto const& of) {
            std::int64_t all = 0;
            for (std::int32_t rank = 0; rank < comm.size(); ++rank) all += of(rank);
            return all;
        };
        submit_all_to_all(
            comm, TensorView<float const, 1, Host>{sent, {count * part_of_all(number)}},
            [this, number, count](std::int32_t rank) { return count * part(number, rank).size(); },
            Vector{got, {sum(received) * size}}, [received, size](std::int32_t rank) { return received(rank) * size; },
            stream);
    }
    /// Gives all ranks the sums of all ranks' parts, and puts them where they belong in a vector.
    ///
    /// Shapes  own [part(number, rank).size()], all [part_of_all(number)], to [elements]
    /// Order   as swap
    template <Communicator C>
    void gather(std::int64_t number, float const* own, float* all, float* to, C& comm, HostStream& stream) {
        submit_all_gather(
            comm, TensorView<float const, 1, Host>{own, {part(number, place_.rank).size()}},
            Vector{all, {part_of_all(number)}}, [this, number](std::int32_t rank) { return part(number, rank).size(); },
            stream);
        stream.submit([this, number, all, to] {
            auto const* from = all;
            for (std::int64_t rank = 0; rank < place_.ranks; ++rank) {
                auto const of = part(number, rank);
                put(rank, of, from, to);
                from += of.size();
            }
            return Result<>{};
        });
    }
    /// Puts a part of a rank's share where it belongs in a vector.
    void put(std::int64_t rank, UnitRange part, float const* from, float* to) const {
        shares_.visit(place_.ranks, rank, part, [&](auto, auto place, auto at, auto size) {
            std::copy_n(from + at - part.begin, size, to + place);
        });
    }

    /// What a rank takes in one exchange of a part, of sums from all ranks of which `others` come from others.
    [[nodiscard]] CollectiveTraffic swap_traffic(std::int64_t number, std::int64_t others) const {
        auto const bytes = others * part(number, place_.rank).size() * size_of_float;
        return {1, bytes > 0 ? 1 : 0, bytes};
    }
    [[nodiscard]] CollectiveTraffic gather_traffic(std::int64_t number) const {
        auto const bytes = (part_of_all(number) - part(number, place_.rank).size()) * size_of_float;
        return {1, bytes > 0 ? 1 : 0, bytes};
    }

    /// Forgets what was found.
    void look_anew() { std::fill(bad_.begin(), bad_.end(), -1); }
    /// Looks at the elements of a region.
    void look_at(std::size_t region, float const* values, std::int64_t place, std::int64_t count) {
        auto const found = find_bad(values, count);
        if (found < 0) return;
        auto const element = place + found - shares_.regions()[region].begin;
        if (bad_[region] < 0 || element < bad_[region]) bad_[region] = element;
    }
    /// What was found in the last region that has something: a backward pass goes from the last parameter to the first, and what is
    /// undefined spreads the same way.
    [[nodiscard]] Optional<BadElement> bad() const {
        for (auto i = bad_.size(); i-- > 0;) {
            if (bad_[i] >= 0) return BadElement{i, bad_[i]};
        }
        return {};
    }

private:
    static constexpr std::int64_t size_of_float = static_cast<std::int64_t>(sizeof(float));
    /// Of all ranks together: 4 MiB, little beside a model and much beside what a message costs.
    static constexpr std::int64_t part_elements = std::int64_t{1} << 20U;

    GradientShares shares_;
    TensorPlace place_;
    /// Elements of a rank's share that are exchanged at a time.
    std::int64_t part_ = 0;
    std::int64_t parts_ = 0;
    /// Of each region the first element that is no number, of what this rank brought.
    List<std::int64_t> bad_;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
