// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/op/product_sums.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A packed weight as product kernels see it: panels of `panel_outputs` outputs, one after another, the last padded with
/// zeros. What a panel holds is the format's own affair (product/pack.hpp).
///
/// Memory  data is aligned to a cache line, and so is every panel
struct PackedView {
    WeightFormat format = WeightFormat::f32;
    std::int64_t outputs = 0;
    std::int64_t inputs = 0;
    /// int4: elements of a row that share a scale.
    std::int64_t group = 0;
    std::byte const* data = nullptr;
    /// Bytes from one panel to the next.
    std::int64_t stride = 0;
};

/// Some panels of a product by a range of the weight's inputs: out[rows, panels' outputs] = in * weight[:, inputs]^T. Ranges
/// begin where the format's blocks do.
///
/// Shapes  in [rows, inputs.size()], out [rows, outputs]: both point to the first column of the whole, whatever the panels
/// Memory  only outputs that the weight has are written, not the padding of its last panel
struct ProductTask {
    PackedView weight;
    UnitRange inputs;
    float const* in = nullptr;
    std::int64_t in_stride = 0;
    /// What `prepare` made of each row, where the kernel has it: from the block on in which the range begins, with zeros before
    /// the range and after it.
    std::byte const* prepared = nullptr;
    std::int64_t prepared_stride = 0;
    std::int64_t rows = 0;
    std::int64_t first_panel = 0;
    std::int64_t last_panel = 0;
    float* out = nullptr;
    std::int64_t out_stride = 0;
    /// Not null: `inputs` are those of the sums, whose results lie `sum_stride` floats apart (product/sum_products.hpp).
    ProductSums const* sums = nullptr;
    std::int64_t sum_stride = 0;
};

/// Bytes of prepared activations that are kept at a time where all rows of a usual prompt share a weight that is read once.
inline constexpr std::int64_t prepared_of_a_prompt = std::int64_t{16} << 20U;

/// How one format is multiplied at one instruction set level. Plain functions: lambdas lose the target of their region.
///
/// `multiply` sums each element in an order that depends on the format, the inputs and the level only; not on where in the
/// weight the inputs lie, as long as they lie alike in its blocks. It knows of no sums.
struct ProductKernel {
    /// Bytes that `prepare` writes for a row of activations; null where the kernel reads the activations themselves.
    std::int64_t (*prepared_bytes)(std::int64_t inputs) = nullptr;
    void (*prepare)(float const* row, std::int64_t inputs, std::byte* prepared) = nullptr;
    void (*multiply)(ProductTask const& task) = nullptr;
    /// What `prepare` writes begins with a range's first input, not with that of its block.
    bool begins_anywhere = false;
    /// Bytes of prepared activations that are kept at a time: by default they stay in the second-level cache beside a panel.
    std::int64_t prepared_at_once = 512 * 1024;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
