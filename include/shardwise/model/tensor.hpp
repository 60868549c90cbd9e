// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/shape.hpp>
#include <shardwise/core/tensor_use.hpp>
#include <shardwise/model/shard_rule.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Whether a tensor is trained, and whether checkpoints store it.
enum class TensorKind : std::uint8_t { parameter, buffer, transient_buffer };

/// A parameter or buffer of a module, without its data.
///
/// Shapes  as torch stores it: a linear weight is [out, in] (gpt2's Conv1D: [in, out])
struct Tensor {
    std::string_view name;
    Shape shape;
    Dtype dtype = Dtype::f32;
    TensorKind kind = TensorKind::parameter;
    TensorUse use = TensorUse::other;
    /// True for a matrix, or a stack of them, that torch has as [in, out].
    bool is_transposed = false;
    /// Inputs of a row that stay together as a file packs them, in the form in which products take them (scheme_grain).
    std::int32_t stored_block = 1;
    ShardRule shard{};
    /// Bytes that the file stores for it, scales included; negative: what shape and dtype say.
    std::int64_t stored_bytes = -1;

    /// True for weights that quantised checkpoints may pack: at least two dimensions.
    [[nodiscard]] constexpr bool is_matrix() const { return shape.rank() >= 2; }
    [[nodiscard]] constexpr bool is_parameter() const { return kind == TensorKind::parameter; }

    /// The memory that it takes as stored.
    [[nodiscard]] constexpr Bytes bytes() const {
        if (stored_bytes >= 0) return Bytes{stored_bytes};
        return Bytes{ceil_divide(shape.elements() * bits(dtype), 8)};
    }

    friend constexpr bool operator==(Tensor const&, Tensor const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
