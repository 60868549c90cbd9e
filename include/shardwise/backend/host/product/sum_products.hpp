// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/op/product_sums.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Bytes of a row's prepared activations for a range of inputs: the records of the blocks in which it lies, or of the range alone.
[[nodiscard]] inline std::int64_t prepared_range_bytes(ProductKernel const& kernel, UnitRange inputs) {
    if (kernel.prepared_bytes == nullptr) return 0;
    if (kernel.begins_anywhere) return kernel.prepared_bytes(inputs.size());
    return kernel.prepared_bytes(inputs.end - inputs.begin / quant_block * quant_block);
}

/// Prepares a row's activations for a range of inputs.
inline void prepare_range(ProductKernel const& kernel, float const* row, UnitRange inputs, std::byte* prepared) {
    auto const lead = inputs.begin % quant_block;
    if (lead == 0 || kernel.begins_anywhere) return kernel.prepare(row, inputs.size(), prepared);
    float block[quant_block] = {};
    auto const count = std::min(quant_block - lead, inputs.size());
    std::copy_n(row, count, block + lead);
    kernel.prepare(block, lead + count, prepared);
    if (count < inputs.size())
        kernel.prepare(row + count, inputs.size() - count, prepared + kernel.prepared_bytes(quant_block));
}

/// Floats of slots that a thread keeps on its stack while it sums.
inline constexpr std::int64_t slot_floats = 32 * 1024;
/// Slots of which the smallest tile finds room there.
inline constexpr std::int64_t max_scratch_slots = slot_floats / (panel_outputs * tile_panels);
/// Rows whose sums are made together where tiles are cut out of blocks.
inline constexpr std::int64_t summed_rows = 48;

/// The slots of a tile of sums: results where they belong, the others on the stack.
struct TileSlots {
    float* sums;
    std::int64_t sum_stride;
    std::int64_t row_stride;
    std::int64_t count;
    float* scratch;
    std::int64_t scratch_size;
    std::int64_t scratch_stride;

    [[nodiscard]] float* at(std::int64_t slot) const {
        return slot < count ? sums + slot * sum_stride : scratch + (slot - count) * scratch_size;
    }
    [[nodiscard]] std::int64_t stride(std::int64_t slot) const { return slot < count ? row_stride : scratch_stride; }
};

/// to += from, in registers of four wherever the program was compiled for no wider ones.
inline void add_row(float const* from, std::int64_t count, float* to) {
    using Four [[gnu::vector_size(16)]] = float;
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        Four sum;
        Four more;
        std::memcpy(&sum, to + i, sizeof sum);
        std::memcpy(&more, from + i, sizeof more);
        sum += more;
        std::memcpy(to + i, &sum, sizeof sum);
    }
    for (; i < count; ++i) to[i] += from[i];
}

/// Walks through the steps for some rows by some panels, which stay in a cache meanwhile.
inline void sum_tile(ProductKernel const& kernel, ProductTask const& task, TileSlots const& slots) {
    auto const columns =
        std::min(task.last_panel * panel_outputs, task.weight.outputs) - task.first_panel * panel_outputs;
    auto part = task;
    for (auto const& step : task.sums->steps) {
        auto* const to = slots.at(step.to);
        auto const stride = slots.stride(step.to);
        if (step.is_product()) {
            part.inputs = step.inputs;
            part.in = task.in + (step.inputs.begin - task.inputs.begin);
            // Kernels count columns from the first of the weight.
            part.out = to - task.first_panel * panel_outputs;
            part.out_stride = stride;
            kernel.multiply(part);
            if (part.prepared != nullptr) part.prepared += prepared_range_bytes(kernel, step.inputs);
            continue;
        }
        auto const* const from = slots.at(step.from);
        auto const from_stride = slots.stride(step.from);
        for (std::int64_t row = 0; row < task.rows; ++row)
            add_row(from + row * from_stride, columns, to + row * stride);
    }
}

/// All steps of a task's sums, tile by tile, so that the weight is read in its order and only results are written to memory.
///
/// Memory  slot_floats of stack
inline void sum_products(ProductKernel const& kernel, ProductTask const& task) {
    auto const& sums = *task.sums;
    alignas(64) float scratch[slot_floats];
    bool const is_streamed = task.rows <= streamed_rows;
    // Quantised weights take one panel after another, and so does one row of fp32: one sum at a time keeps up with memory.
    bool const is_alone =
        is_quantised(task.weight.format) || (task.rows == 1 && task.weight.format == WeightFormat::f32);
    auto const least = is_alone ? std::int64_t{1} : tile_panels;
    auto const most = slot_floats / std::max<std::int64_t>(sums.scratch, 1);
    auto const max_rows = std::min(is_streamed ? task.rows : summed_rows, most / panel_outputs / least);
    auto const row_parts = ceil_divide(task.rows, max_rows);
    auto const rows = ceil_divide(task.rows, row_parts);
    auto const fitting = most / (rows * panel_outputs) / least * least;
    auto const panels = is_streamed ? least : std::max(fitting, least);
    for (auto panel = task.first_panel; panel < task.last_panel; panel += panels) {
        for (std::int64_t row = 0; row < task.rows; row += rows) {
            auto part = task;
            part.first_panel = panel;
            part.last_panel = std::min(panel + panels, task.last_panel);
            part.rows = std::min(rows, task.rows - row);
            part.in = task.in + row * task.in_stride;
            if (task.prepared != nullptr) part.prepared = task.prepared + row * task.prepared_stride;
            auto const columns = (part.last_panel - panel) * panel_outputs;
            sum_tile(kernel, part,
                     {task.out + row * task.out_stride + panel * panel_outputs, task.sum_stride, task.out_stride,
                      sums.sums, scratch, part.rows * columns, columns});
        }
    }
}

/// Multiplies as a task says, with sums or without.
inline void run_product(ProductKernel const& kernel, ProductTask const& task) {
    if (task.sums == nullptr) return kernel.multiply(task);
    sum_products(kernel, task);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
