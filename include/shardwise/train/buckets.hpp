// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What buckets need to know of a parameter's gradient.
struct BucketTensor {
    std::int64_t elements = 0;
    Dtype dtype = Dtype::f32;
    std::int32_t device = 0;
    /// A sparse gradient has a bucket of its own.
    bool is_sparse = false;
};

/// The places of the tensors in one bucket.
using Bucket = List<std::int32_t>;

/// The sizes at which buckets are closed: the first is small, so that reducing begins early.
struct BucketLimits {
    Bytes first{std::int64_t{1} << 20};
    Bytes cap{std::int64_t{25} << 20};

    /// A cap that is asked for is the first bucket's, too, as torch does.
    [[nodiscard]] static constexpr BucketLimits with_cap(Bytes cap) { return {.first = cap, .cap = cap}; }
};

/// How gradients are put together into buckets, which are reduced over the ranks one by one.
struct BucketOptions {
    /// The first bucket is small, so that reducing begins early.
    Bytes first{std::int64_t{1} << 20};
    Bytes cap{std::int64_t{25} << 20};
    /// Not every parameter gets a gradient in every step.
    bool finds_unused = false;
    /// The same parameters get gradients in every step, in the same order.
    bool is_static = false;

    /// A cap that is asked for is the first bucket's, too, as torch does.
    [[nodiscard]] static constexpr BucketOptions with_cap(Bytes cap) { return {.first = cap, .cap = cap}; }
    /// Whether buckets are made again after the first step, in the order in which gradients were ready.
    [[nodiscard]] constexpr bool rebuilds() const { return is_static || !finds_unused; }
};

/// Puts tensors into buckets, by torch's rule: one bucket is open for each dtype and device, a tensor is appended to its own, and
/// a bucket that has reached the limit is closed; so it is as long as its last tensor makes it, and none is cut. Each dtype and
/// device has the limits one after another, the last of them from then on.
///
/// Buckets are in the order of their first tensors; where `order` says in which order tensors come, in the order in which they are
/// closed, the open ones last.
///
/// Source  torch 2.9.1 reducer.cpp, compute_bucket_assignment_by_size
/// Errors  invalid_argument without limits, for a negative size or an order that is none; size_overflow
[[nodiscard]] inline Result<List<Bucket>> assign_buckets(Span<BucketTensor const> tensors, Span<Bytes const> limits,
                                                         Span<std::int32_t const> order = {}) {
    Error bad{ErrorCode::invalid_argument};
    bad.in("gradient buckets");
    if (limits.empty()) return bad.at("limits").because("are none").fix("give the size at which a bucket is closed");
    if (!order.empty()) {
        List<bool> has_come(tensors.size(), false);
        for (auto const i : order) {
            if (i < 0 || static_cast<std::size_t>(i) >= tensors.size() || has_come[static_cast<std::size_t>(i)])
                return bad.at("order").because("names a tensor twice, or one that there is not").got(i);
            has_come[static_cast<std::size_t>(i)] = true;
        }
        if (order.size() != tensors.size())
            return bad.at("order")
                .because("is not of all tensors")
                .got(static_cast<std::int64_t>(order.size()))
                .expected(static_cast<std::int64_t>(tensors.size()));
    }

    struct Open {
        Dtype dtype{};
        std::int32_t device = 0;
        std::size_t limit = 0;
        std::int64_t bytes = 0;
        Bucket tensors;
    };
    List<Open> open;
    List<Bucket> closed;
    for (std::size_t step = 0; step < tensors.size(); ++step) {
        auto const place = order.empty() ? static_cast<std::int32_t>(step) : order[step];
        auto const& tensor = tensors[static_cast<std::size_t>(place)];
        if (tensor.elements < 0) return bad.at("elements").because("are negative").got(tensor.elements).at_least(0);
        if (tensor.is_sparse) {
            closed.push_back({place});
            continue;
        }
        std::size_t own = 0;
        while (own < open.size() && (open[own].dtype != tensor.dtype || open[own].device != tensor.device)) ++own;
        if (own == open.size()) open.push_back({tensor.dtype, tensor.device, 0, 0, {}});
        auto& bucket = open[own];
        auto const bytes = storage_bytes(tensor.dtype, tensor.elements);
        auto const sum = bytes ? checked_add(bucket.bytes, *bytes) : bytes;
        if (!sum) return Error{ErrorCode::size_overflow}.in("gradient buckets").got(tensor.elements);
        bucket.tensors.push_back(place);
        bucket.bytes = *sum;
        if (bucket.bytes < limits[bucket.limit].count()) continue;
        closed.push_back(std::move(bucket.tensors));
        bucket.tensors = {};
        bucket.bytes = 0;
        if (bucket.limit + 1 < limits.size()) ++bucket.limit;
    }
    for (auto& bucket : open) {
        if (!bucket.tensors.empty()) closed.push_back(std::move(bucket.tensors));
    }
    if (!order.empty()) return closed;
    // In the order of their first tensors; there are few.
    for (std::size_t i = 1; i < closed.size(); ++i) {
        for (std::size_t j = i; j > 0 && closed[j][0] < closed[j - 1][0]; --j) closed[j].swap(closed[j - 1]);
    }
    return closed;
}

/// The buckets of a first step, in the order in which they are reduced. Where they are made again, all of a dtype are in one,
/// else the tensors' own order, from the last to the first, is the guess at the order of their gradients.
///
/// Source  torch 2.9.1 nn/parallel/distributed.py, _ddp_init_helper
/// Errors  as assign_buckets
[[nodiscard]] inline Result<List<Bucket>> first_buckets(Span<BucketTensor const> tensors,
                                                        BucketOptions const& options) {
    Bytes const both[] = {options.first, options.cap};
    Bytes const all[] = {Bytes{INT64_MAX}};
    auto made = assign_buckets(tensors, options.rebuilds() ? Span<Bytes const>(all) : Span<Bytes const>(both));
    if (!made) return made;
    for (std::size_t i = 0; i < made->size() / 2; ++i) (*made)[i].swap((*made)[made->size() - 1 - i]);
    return made;
}

/// The buckets after the first step: `ready` are the tensors in the order in which their gradients were ready, on rank 0, which tells the
/// other ranks.
///
/// Source  torch 2.9.1 reducer.cpp, rebuild_buckets
/// Errors  as assign_buckets; unsupported for options under which buckets stay
[[nodiscard]] inline Result<List<Bucket>> rebuilt_buckets(Span<BucketTensor const> tensors,
                                                          Span<std::int32_t const> ready,
                                                          BucketOptions const& options) {
    if (!options.rebuilds()) {
        return Error{ErrorCode::unsupported}
            .in("gradient buckets")
            .because("stay as they are where unused parameters are looked for")
            .fix("set is_static where the same parameters get gradients in every step");
    }
    Bytes const limits[] = {options.first, options.cap};
    return assign_buckets(tensors, limits, ready);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
