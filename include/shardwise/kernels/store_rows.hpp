#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/quant/encode_int8.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

namespace detail {

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
            float const* const from = in.row(i);
            Cache* const to = memory.row(place);
            if constexpr (std::same_as<Cache, std::int8_t>) {
                auto const heads = scales.extent(1);
                auto const width = static_cast<std::size_t>(heads == 0 ? 0 : in.extent(1) / heads);
                for (std::int64_t head = 0; head < heads; ++head) {
                    auto const at = static_cast<std::size_t>(head) * width;
                    scales.row(place)[head] = encode_int8_row({from + at, width}, {to + at, width});
                }
            } else {
                for (std::int64_t j = 0; j < in.extent(1); ++j) to[j] = Cache(from[j]);
            }
        }
    }
};

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
template <CacheElement Cache>
void store_rows(TensorView<float const, 2, Host> in, TensorView<Cache, 2, Host> memory,
                CachedRows<Cache, Host> const& cache, std::int64_t first, HostStream& stream,
                TensorView<float, 2, Host> scales = {}) {
    Host::launch(in.extent(0), detail::StoreRowsBody<Cache>{in, memory, cache, first, scales}, stream,
                 detail::row_grain(in.extent(1)));
}

}  // namespace shardwise::inline v0_2_0
