// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_turns.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/kernels/detail/thread_array.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/op/rope_layout.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The cosines and sines by which `rope` turns each token's pairs, times `scale`: made once for a step and a set of frequencies, and
/// read by every layer.
///
/// Shapes  positions [tokens]; frequencies [pairs]; turns [tokens, 2 * pairs], the cosines first
/// Units   frequencies in radians per token
/// Order   on `stream`
/// Errors  shape_mismatch
[[nodiscard]] inline Result<> rope_turns(TensorView<std::int32_t const, 1, Host> positions,
                                         TensorView<float const, 1, Host> frequencies, TensorView<float, 2, Host> turns,
                                         HostStream& stream, float scale = 1.0F) {
    if (auto const checked = detail::check_turns(positions, frequencies, turns); !checked) return checked;
    auto const pairs = frequencies.elements();
    auto const make = [=](std::int64_t begin, std::int64_t end) {
        for (auto token = begin; token < end; ++token) {
            auto* const cosines = turns.row(token);
            detail::fill_turns(positions.data()[token], frequencies, RopeLayout::half, scale, cosines, cosines + pairs);
        }
    };
    // A sine costs about as much as 32 additions.
    Host::launch(positions.elements(), make, stream, detail::row_grain(32 * pairs));
    return {};
}

namespace detail {

/// rope of heads that fit, which who calls has asked once.
template <ActivationElement T>
[[nodiscard]] Result<> rope_bound(TensorView<T, 2, Host> values, TensorView<float const, 2, Host> turns,
                                  std::int64_t head_dim, RopeLayout layout, HostStream& stream, std::int64_t first) {
    if (!stream.isa()) return stream.isa().error();
    using Turn = void (*)(T*, float const*, float const*, std::int64_t);
    auto const halves = detail::choose_kernel<Turn>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(turn_halves<T>));
    auto const neighbours = detail::choose_kernel<Turn>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(turn_neighbours<T>));
    auto const pairs = turns.extent(1) / 2;
    auto const heads = values.extent(1) / head_dim;
    auto const turn = [=](std::int64_t begin, std::int64_t end) {
        bool const is_half = layout == RopeLayout::half;
        // Neighbours take each twice, the first sine negative.
        detail::ThreadArray<float, 1024> table(is_half ? 0 : 4 * pairs);
        for (auto token = begin; token < end; ++token) {
            auto const* cosines = turns.row(token);
            auto const* sines = cosines + pairs;
            for (std::int64_t pair = 0; !is_half && pair < pairs; ++pair) {
                auto* const twice = table.data() + 2 * pair;
                twice[0] = twice[1] = cosines[pair];
                twice[2 * pairs] = -sines[pair];
                twice[2 * pairs + 1] = sines[pair];
            }
            if (!is_half) {
                cosines = table.data();
                sines = cosines + 2 * pairs;
            }
            for (std::int64_t head = 0; head < heads; ++head) {
                auto* const elements = values.row(token) + head * head_dim + first;
                (is_half ? halves : neighbours)(elements, cosines, sines, pairs);
            }
        }
    };
    Host::launch(values.extent(0), turn, stream, detail::row_grain(values.extent(1)));
    return {};
}

}  // namespace detail

/// Turns the first elements of every head, in place, by what rope_turns made for its token: the bits of `rope`. Those after `first`
/// others turn where it is given (MLA).
///
/// Shapes  values [tokens, heads * head_dim]; turns [tokens, 2 * pairs], first + 2 * pairs at most head_dim
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> rope(TensorView<T, 2, Host> values, TensorView<float const, 2, Host> turns,
                            std::int64_t head_dim, RopeLayout layout, HostStream& stream, std::int64_t first = 0) {
    if (auto const checked = detail::check_turned(values, turns, head_dim, first); !checked) return checked;
    return detail::rope_bound<T>(values, turns, head_dim, layout, stream, first);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
