// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Elements that a thread takes at least.
inline constexpr std::int64_t half_grain = std::int64_t{1} << 15U;

/// Calls `apply(round, widen)` with the conversions of a dtype of 16 bits, by their types.
template <class Apply>
void with_half(Dtype dtype, Apply const& apply) {
    if (dtype == Dtype::bf16)
        apply([](float value) { return to_bf16(value); }, [](std::uint16_t bits) { return from_bf16(bits); });
    else
        apply([](float value) { return to_f16(value); }, [](std::uint16_t bits) { return from_f16(bits); });
}

}  // namespace detail

/// to = from, each element rounded to bf16 or f16: to the nearest, ties to even. What is too large for f16 becomes infinite.
///
/// Shapes  from, to [count], which may be the same
/// Order   on `stream`
inline void round_to_half(float const* from, float* to, std::int64_t count, Dtype dtype, HostStream& stream) {
    detail::with_half(dtype, [&](auto round, auto widen) {
        auto const apply = [=](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) to[i] = widen(round(from[i]));
        };
        Host::launch(count, apply, stream, detail::half_grain);
    });
}

/// Rounds in place, as round_to_half, and keeps the bits.
///
/// Shapes  values, packed [count]
/// Order   on `stream`
inline void pack_half(float* values, std::uint16_t* packed, std::int64_t count, Dtype dtype, HostStream& stream) {
    detail::with_half(dtype, [&](auto round, auto widen) {
        auto const apply = [=](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) {
                packed[i] = round(values[i]);
                values[i] = widen(packed[i]);
            }
        };
        Host::launch(count, apply, stream, detail::half_grain);
    });
}

/// The values of bits that pack_half kept.
///
/// Shapes  packed, values [count]
/// Order   on `stream`
inline void unpack_half(std::uint16_t const* packed, float* values, std::int64_t count, Dtype dtype,
                        HostStream& stream) {
    detail::with_half(dtype, [&](auto, auto widen) {
        auto const apply = [=](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) values[i] = widen(packed[i]);
        };
        Host::launch(count, apply, stream, detail::half_grain);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
