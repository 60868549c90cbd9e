// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/kernels/detail/check_stored.hpp>
#include <shardwise/quant/encode_int8.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Stores one row: elements in the cache's type, of bytes a scale for each head.
template <class Cache>
void store_row(float const* from, std::int64_t row_width, Cache* to, float* scales, std::int64_t heads) {
    if constexpr (std::same_as<Cache, std::int8_t>) {
        auto const width = static_cast<std::size_t>(row_width / heads);
        for (std::int64_t head = 0; head < heads; ++head) {
            auto const at = static_cast<std::size_t>(head) * width;
            scales[head] = encode_int8_row({from + at, width}, {to + at, width});
        }
    } else {
        for (std::int64_t i = 0; i < row_width; ++i) to[i] = Cache(from[i]);
    }
}

/// Stores rows [begin, end).
template <class Cache>
struct StoreRowsBody {
    TensorView<float const, 2, Host> in;
    TensorView<Cache, 2, Host> memory;
    CachedRows<Cache, Host> cache;
    std::int64_t first;
    TensorView<float, 2, Host> scales;

    void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto i = begin; i < end; ++i) {
            auto const place = cache.place(first + i);
            auto* const of_row = scales.empty() ? nullptr : scales.row(place);
            store_row(in.row(i), in.extent(1), memory.row(place), of_row, scales.extent(1));
        }
    }
};

template <class Cache>
[[nodiscard]] Result<> check_store_rows(TensorView<float const, 2, Host> const& in,
                                        TensorView<Cache, 2, Host> const& memory, CachedRows<Cache, Host> const& cache,
                                        std::int64_t first, TensorView<float, 2, Host> const& scales) {
    auto const differs = [](std::string_view reason, std::int64_t got, std::int64_t expected) -> Result<> {
        return Error{ErrorCode::shape_mismatch}.in("store_rows").because(reason).got(got).expected(expected);
    };
    if (auto const checked = cache.check("store_rows"); !checked) return checked;
    if (first < 0 || in.extent(0) > cache.count() - first)
        return differs("the cache does not have so many rows from the first one on", first,
                       cache.count() - in.extent(0));
    if (in.extent(1) != cache.width())
        return differs("the rows are not as wide as the cache", in.extent(1), cache.width());
    if (memory.extent(0) != cache.memory_rows())
        return differs("the memory is not what the cache shows", memory.extent(0), cache.memory_rows());
    return check_stored("store_rows", in, memory, scales);
}

}  // namespace detail

/// Puts rows of keys or values into a cache: row i becomes row `first` + i of the sequence.
///
/// bf16 rounds to the nearest, ties to even: an element is off by at most 2^-8 of itself. Bytes are a head's elements
/// divided by its greatest magnitude / 127, rounded to the nearest: an element is off by at most 1/254 of that
/// magnitude. A row's bits depend on the row alone.
///
/// Shapes  in [rows, heads * width]; memory [rows of the cache, heads * width], scales [rows of the cache, heads] where
///         elements are bytes: what `cache` shows, to be written
/// Memory  the list of pages too stays alive until it is done; `first` + rows are no more than `cache` has
/// Order   on `stream`
/// Errors  shape_mismatch, before anything is stored
template <CacheElement Cache>
[[nodiscard]] Result<> store_rows(TensorView<float const, 2, Host> in, TensorView<Cache, 2, Host> memory,
                                  CachedRows<Cache, Host> const& cache, std::int64_t first, HostStream& stream,
                                  TensorView<float, 2, Host> scales = {}) {
    if (auto const known = check_views("store_rows", in, memory, cache.memory(), scales); !known) return known;
    if (auto const checked = detail::check_store_rows<Cache>(in, memory, cache, first, scales); !checked)
        return checked;
    Host::launch(in.extent(0), detail::StoreRowsBody<Cache>{in, memory, cache, first, scales}, stream,
                 detail::row_grain(in.extent(1)));
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
