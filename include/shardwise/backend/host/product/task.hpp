#pragma once

#include <shardwise/op/packed_weight.hpp>
#include <shardwise/op/weight_format.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// A packed weight as product kernels see it: panels of `panel_outputs` outputs, one behind another, the last padded with
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
};

/// Some panels of a product: out[rows, panels' outputs] = in * weight^T.
///
/// Shapes  in [rows, inputs], out [rows, outputs]: both point to the first column of the whole, whatever the panels
/// Memory  only outputs that the weight has are written, not the padding of its last panel
struct ProductTask {
    PackedView weight;
    float const* in = nullptr;
    std::int64_t in_stride = 0;
    /// What `prepare` made of each row, where the kernel has it.
    std::byte const* prepared = nullptr;
    std::int64_t prepared_stride = 0;
    std::int64_t rows = 0;
    std::int64_t first_panel = 0;
    std::int64_t last_panel = 0;
    float* out = nullptr;
    std::int64_t out_stride = 0;
};

/// How one format is multiplied at one instruction set level. Plain functions: lambdas lose the target of their region.
///
/// `multiply` sums each element in an order that depends on the format, the inputs and the level only.
struct ProductKernel {
    /// Bytes that `prepare` writes for a row of activations; null where the kernel reads the activations themselves.
    std::int64_t (*prepared_bytes)(std::int64_t inputs) = nullptr;
    void (*prepare)(float const* row, std::int64_t inputs, std::byte* prepared) = nullptr;
    void (*multiply)(ProductTask const& task) = nullptr;
};

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
