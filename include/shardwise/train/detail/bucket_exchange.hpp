// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/train/buckets.hpp>
#include <shardwise/train/detail/share_exchange.hpp>
#include <shardwise/train/gradient_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Some regions of a vector of gradients, in order, and how ranks exchange them. All of them where there is no list.
struct BucketExchange {
    Bucket regions;
    ShareExchange exchange;

    /// Of a region of the bucket, the number among all.
    [[nodiscard]] std::size_t region(std::size_t number) const {
        return regions.empty() ? number : static_cast<std::size_t>(regions[number]);
    }
};

/// One of each bucket: without any, and on one rank, one of all regions.
[[nodiscard]] inline std::vector<BucketExchange> bucket_exchanges(GradientShares const& shares,
                                                                  TensorPlace const& place,
                                                                  List<Bucket> const& buckets) {
    std::vector<BucketExchange> out;
    if (buckets.size() <= 1 || place.ranks == 1) {
        out.push_back({{}, ShareExchange(shares, place)});
        return out;
    }
    for (auto regions : buckets) {
        std::sort(regions.begin(), regions.end());
        auto const part = shares.part(regions);
        out.push_back({std::move(regions), ShareExchange(part, place)});
    }
    return out;
}

/// The bucket of a region.
[[nodiscard]] inline std::size_t bucket_of(std::vector<BucketExchange> const& all, std::size_t region) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (auto const one : all[i].regions) {
            if (static_cast<std::size_t>(one) == region) return i;
        }
    }
    return 0;
}

/// Where what was sent is no number: in the last region, of all, that has such an element.
[[nodiscard]] inline Optional<BadElement> last_bad(std::vector<BucketExchange> const& all) {
    Optional<BadElement> last;
    for (auto const& one : all) {
        auto const found = one.exchange.bad();
        if (!found) continue;
        auto const region = one.region(found->region);
        if (!last || region > last->region) last = BadElement{region, found->element};
    }
    return last;
}

/// Errors  invalid_argument for buckets that are not of all regions, each once
[[nodiscard]] inline Result<> check_buckets(GradientShares const& shares, List<Bucket> const& buckets) {
    auto const regions = shares.regions().size();
    List<char> seen(regions, 0);
    std::size_t count = 0;
    for (auto const& bucket : buckets) {
        for (auto const region : bucket) {
            auto const at = static_cast<std::size_t>(region);
            count += at < regions && seen[at]++ == 0 ? 1 : regions + 1;
        }
    }
    if (buckets.empty() || count == regions) return {};
    return Error{ErrorCode::invalid_argument}
        .in("gradient tree")
        .at("buckets")
        .because("are not of all regions, each once")
        .got(static_cast<std::int64_t>(count))
        .expected(static_cast<std::int64_t>(regions));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
