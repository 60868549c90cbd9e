// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/core/scalar_math.hpp>
#include <shardwise/kernels/detail/thread_array.hpp>
#include <shardwise/op/rope_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Cosines and sines of a position's pairs; for neighbours each twice, the first sine negative.
inline void fill_turns(std::int64_t position, TensorView<float const, 1, Host> frequencies, RopeLayout layout,
                       float scale, float* cosines, float* sines) {
    for (std::int64_t pair = 0; pair < frequencies.elements(); ++pair) {
        // In double: a float angle of a million radians has no digit behind the point left.
        auto const rotation =
            sine_cosine_of(static_cast<double>(position) * static_cast<double>(frequencies.data()[pair]));
        auto const cosine = static_cast<float>(rotation.cosine) * scale;
        auto const sine = static_cast<float>(rotation.sine) * scale;
        if (layout == RopeLayout::half) {
            cosines[pair] = cosine;
            sines[pair] = sine;
        } else {
            cosines[2 * pair] = cosines[2 * pair + 1] = cosine;
            sines[2 * pair] = -sine;
            sines[2 * pair + 1] = sine;
        }
    }
}

/// Turns heads by their positions, or where `direction` is -1 back.
template <ActivationElement T>
[[nodiscard]] Result<> turn_heads(std::string_view kernel, TensorView<T, 2, Host> values,
                                  TensorView<std::int32_t const, 1, Host> positions,
                                  TensorView<float const, 1, Host> frequencies, std::int64_t head_dim,
                                  RopeLayout layout, HostStream& stream, float scale, std::int64_t first,
                                  std::int64_t direction) {
    if (auto const known = check_views(kernel, values, positions, frequencies); !known) return known;
    auto const refused = [&] { return Error{ErrorCode::shape_mismatch}.in(kernel); };
    auto const pairs = frequencies.elements();
    if (head_dim < 1 || values.extent(1) % head_dim != 0) {
        return refused().because("a row is not made of whole heads").got(values.extent(1)).multiple_of(head_dim);
    }
    if (first < 0 || 2 * pairs > head_dim - first)
        return refused().because("more elements turn than a head has").got(2 * pairs).at_most(head_dim - first);
    if (positions.elements() != values.extent(0)) {
        return refused().because("each token needs a position").got(positions.elements()).expected(values.extent(0));
    }
    if (!stream.isa()) return stream.isa().error();
    using Turn = void (*)(T*, float const*, float const*, std::int64_t);
    auto const halves = choose_kernel<Turn>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(turn_halves<T>));
    auto const neighbours = choose_kernel<Turn>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(turn_neighbours<T>));
    auto const heads = values.extent(1) / head_dim;
    auto const turn = [=](std::int64_t begin, std::int64_t end) {
        ThreadArray<float, 1024> table(4 * pairs);
        auto* const cosines = table.data();
        auto* const sines = cosines + 2 * pairs;
        for (auto token = begin; token < end; ++token) {
            fill_turns(direction * positions.data()[token], frequencies, layout, scale, cosines, sines);
            for (std::int64_t head = 0; head < heads; ++head) {
                auto* const elements = values.row(token) + head * head_dim + first;
                (layout == RopeLayout::half ? halves : neighbours)(elements, cosines, sines, pairs);
            }
        }
    };
    Host::launch(values.extent(0), turn, stream, row_grain(values.extent(1)));
    return {};
}

}  // namespace detail

/// Turns the first elements of every head by its token's position, in place: the pair i of position p by the angle
/// p * frequencies[i]. `scale` multiplies cosine and sine (yarn's and longrope's attention factor). Those after `first` others
/// turn where it is given (MLA).
///
/// Shapes  values [tokens, heads * head_dim]; positions [tokens]; frequencies [rotary / 2], first + rotary at most head_dim
/// Units   frequencies in radians per token
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
/// Source  Su et al., RoFormer, 2021
template <ActivationElement T>
[[nodiscard]] Result<> rope(TensorView<T, 2, Host> values, TensorView<std::int32_t const, 1, Host> positions,
                            TensorView<float const, 1, Host> frequencies, std::int64_t head_dim, RopeLayout layout,
                            HostStream& stream, float scale = 1.0F, std::int64_t first = 0) {
    return detail::turn_heads("rope", values, positions, frequencies, head_dim, layout, stream, scale, first, 1);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
