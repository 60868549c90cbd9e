// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/shape.hpp>
#include <shardwise/core/tensor_use.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a quantisation scheme asks of one tensor before it decides how to store it. The defaults are those of a linear
/// weight [out, in] inside a block.
struct Weight {
    Shape shape;
    /// Its dtype before packing.
    Dtype dtype = Dtype::bf16;
    TensorUse use = TensorUse::linear;
    /// The block that it belongs to, counted over the model.
    std::int64_t layer = 0;
    /// False for linear weights outside the repeated blocks (opt's projections, bert's pooler).
    bool in_block = true;
    /// True for the weights of experts, one [out, in] each or all of a layer in one three-dimensional tensor.
    bool is_expert = false;
    /// True where torch stores [in, out]: gpt2's Conv1D, gpt_oss's experts.
    bool is_transposed = false;
    /// False where no nn.Linear holds it (a router that is a bare parameter): bitsandbytes and fp8 replace such modules
    /// only.
    bool in_linear_module = true;

    /// Extents without leading ones: how many dimensions ggml counts.
    [[nodiscard]] constexpr std::size_t dimensions() const {
        std::size_t leading = 0;
        while (leading < shape.rank() && shape[leading] == 1) ++leading;
        return shape.rank() - leading;
    }
    /// The length of the dimension that products sum over; for less than two dimensions the last one.
    [[nodiscard]] constexpr std::int64_t inputs() const {
        if (shape.rank() == 0) return 1;
        return shape[shape.rank() - (is_transposed && shape.rank() >= 2 ? 2 : 1)];
    }
    /// The number of results of one matrix.
    [[nodiscard]] constexpr std::int64_t outputs() const {
        if (shape.rank() < 2) return 1;
        return shape[shape.rank() - (is_transposed ? 1 : 2)];
    }
};

/// True for the classes of modules that bitsandbytes and fp8 replace by packed ones: nn.Linear, its subclasses, Conv1D.
[[nodiscard]] constexpr bool is_linear_class(std::string_view class_name) {
    return class_name.ends_with("Linear") || class_name == "Conv1D";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
