// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/rope.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The gradient of rope's input, in place of its output's: each pair is rotated back by the angle that it was rotated by, and
/// multiplied by the same `scale`. Elements that did not turn keep their gradient.
///
/// Shapes  gradient [tokens, heads * head_dim]; positions, frequencies, scale and first as rope's
/// Order   on `stream`
/// Errors  as rope
template <ActivationElement T>
[[nodiscard]] Result<> rope_backward(TensorView<T, 2, Host> gradient, TensorView<std::int32_t const, 1, Host> positions,
                                     TensorView<float const, 1, Host> frequencies, std::int64_t head_dim,
                                     RopeLayout layout, HostStream& stream, float scale = 1.0F,
                                     std::int64_t first = 0) {
    return detail::turn_heads("rope_backward", gradient, positions, frequencies, head_dim, layout, stream, scale, first,
                              -1);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
