// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/train/optimizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which elements of a vector of gradients each rank owns: of every region, as a rule a parameter, its optimizer_share. A rank's share is
/// those of all regions, one after another.
class GradientShares {
public:
    struct Region {
        std::int64_t begin = 0;
        std::int64_t elements = 0;
    };

    GradientShares() = default;
    /// One region.
    explicit GradientShares(std::int64_t elements) { add(0, elements); }
    /// Regions are added in order; there may be gaps between them, which nobody sums.
    void add(std::int64_t begin, std::int64_t elements) {
        regions_.push_back({begin, elements});
        elements_ = std::max(elements_, begin + elements);
    }
    /// Makes the vector longer than its regions.
    void extend_to(std::int64_t elements) { elements_ = std::max(elements_, elements); }

    /// Some of the regions, in order, of the same vector.
    [[nodiscard]] GradientShares part(List<std::int32_t> const& regions) const {
        GradientShares out;
        for (auto const i : regions) {
            auto const& region = regions_[static_cast<std::size_t>(i)];
            out.add(region.begin, region.elements);
        }
        out.extend_to(elements_);
        return out;
    }

    /// Errors  invalid_argument for regions that overlap or have negative sizes; size_overflow
    [[nodiscard]] Result<> check() const {
        Error bad{ErrorCode::invalid_argument};
        bad.in("gradient tree");
        std::int64_t end = 0;
        for (auto const& region : regions_) {
            if (region.elements < 0) return bad.at("elements").because("are negative").got(region.elements).at_least(0);
            if (region.begin < end)
                return bad.at("regions").because("overlap or are not in order").got(region.begin).at_least(end);
            if (region.begin > max_elements || region.elements > max_elements - region.begin)
                return Error{ErrorCode::size_overflow}.in("gradient tree").at("elements").got(region.elements);
            end = region.begin + region.elements;
        }
        return {};
    }

    [[nodiscard]] List<Region> const& regions() const { return regions_; }
    /// Of the vector.
    [[nodiscard]] std::int64_t elements() const { return elements_; }
    /// The elements of a region that a rank owns, by their places in the vector.
    [[nodiscard]] UnitRange range(std::size_t region, std::int64_t ranks, std::int64_t rank) const {
        auto const own = optimizer_share(regions_[region].elements, ranks, rank);
        return {regions_[region].begin + own.begin, regions_[region].begin + own.end};
    }
    /// The elements of a rank's share.
    [[nodiscard]] std::int64_t size(std::int64_t ranks, std::int64_t rank) const {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < regions_.size(); ++i) sum += range(i, ranks, rank).size();
        return sum;
    }

    /// Calls visit(region, place in the vector, place in the share, elements) for what lies in `part` of a rank's share.
    template <class Visit>
    void visit(std::int64_t ranks, std::int64_t rank, UnitRange part, Visit const& visit) const {
        std::int64_t at = 0;
        for (std::size_t i = 0; i < regions_.size() && at < part.end; ++i) {
            auto const own = range(i, ranks, rank);
            auto const first = std::max(part.begin, at);
            auto const last = std::min(part.end, at + own.size());
            if (first < last) visit(i, own.begin + first - at, first, last - first);
            at += own.size();
        }
    }

private:
    /// What 63 bits count in bytes, with capacity for all sums.
    static constexpr std::int64_t max_elements = std::int64_t{1} << 48U;

    List<Region> regions_;
    std::int64_t elements_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
