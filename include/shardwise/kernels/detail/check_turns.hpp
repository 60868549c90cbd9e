// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A cosine and a sine of each pair for each position.
template <class Backend>
[[nodiscard]] Result<> check_turns(TensorView<std::int32_t const, 1, Backend> const& positions,
                                   TensorView<float const, 1, Backend> const& frequencies,
                                   TensorView<float, 2, Backend> const& turns) {
    if (auto const known = check_views("rope_turns", positions, frequencies, turns); !known) return known;
    Error error{ErrorCode::shape_mismatch};
    error.in("rope_turns");
    if (turns.extent(0) != positions.elements())
        return error.because("the output does not have a row for each position")
            .got(turns.extent(0))
            .expected(positions.elements());
    if (turns.extent(1) == 2 * frequencies.elements()) return {};
    return error.because("the output does not have a cosine and a sine for each frequency")
        .got(turns.extent(1))
        .expected(2 * frequencies.elements());
}

/// Heads that turn by what rope_turns made.
template <class T, class Backend>
[[nodiscard]] Result<> check_turned(TensorView<T, 2, Backend> const& values,
                                    TensorView<float const, 2, Backend> const& turns, std::int64_t head_dim,
                                    std::int64_t first) {
    if (auto const known = check_views("rope", values, turns); !known) return known;
    Error error{ErrorCode::shape_mismatch};
    error.in("rope");
    if (head_dim < 1 || values.extent(1) % head_dim != 0)
        return error.because("a row is not made of whole heads").got(values.extent(1)).multiple_of(head_dim);
    if (turns.extent(1) % 2 != 0)
        return error.because("a token's turns are not as many cosines as sines").got(turns.extent(1)).multiple_of(2);
    if (first < 0 || turns.extent(1) > head_dim - first)
        return error.because("more elements turn than a head has").got(turns.extent(1)).at_most(head_dim - first);
    if (turns.extent(0) == values.extent(0)) return {};
    return error.because("each token needs its turns").got(turns.extent(0)).expected(values.extent(0));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
