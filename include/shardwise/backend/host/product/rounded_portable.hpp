// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/quant_portable.hpp>
#include <shardwise/backend/host/product/rounded_record.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/core/unfused.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_UNFUSED_BEGIN

namespace detail::portable {

/// Rounds a row: to the nearest whole number, of two the even one.
inline void prepare_rounded(float const* row, std::int64_t inputs, std::byte* prepared) {
    auto* record = reinterpret_cast<RoundedRecord*>(prepared);
    for (std::int64_t first = 0; first < inputs; first += quant_block, ++record) {
        auto const count = std::min(quant_block, inputs - first);
        std::int32_t largest = 0;
        for (std::int64_t i = 0; i < count; ++i)
            largest = std::max(largest, std::bit_cast<std::int32_t>(std::abs(row[first + i])));
        auto const unit = rounded_scale(largest);
        *record = RoundedRecord{};
        std::int32_t sum = 0;
        for (std::int64_t i = 0; i < count && unit.scale == unit.scale; ++i) {
            auto const value = static_cast<std::int32_t>(std::nearbyint(row[first + i] * unit.inverse));
            record->values[i] = static_cast<std::int8_t>(value);
            sum += value;
        }
        record->scale = unit.scale;
        record->sum = unit.scale * static_cast<float>(sum);
    }
}

/// What the codes of a block stand for, as whole numbers.
inline void read_numbers(PackedView const& weight, std::byte const* codes, std::int32_t (*numbers)[panel_outputs]) {
    auto const kind = quant_traits(weight.format);
    for (std::int64_t i = 0; i < quant_block; ++i) {
        read_codes_of(codes, kind.bits, i, numbers[i]);
        if (host_format(weight.format).value == CodeValue::e2m1) {
            for (auto& number : numbers[i])
                number = static_cast<std::int32_t>(2.0F * from_e2m1(static_cast<std::uint8_t>(number)));
        } else {
            for (auto& number : numbers[i]) number -= kind.offset;
        }
    }
}

/// Adds the products of inputs [begin, end) of a block, which share a scale, to the sums of a row.
inline void add_run(RoundedRecord const& record, std::int32_t const (*numbers)[panel_outputs], std::int64_t begin,
                    std::int64_t end, float const* scales, float* sums) {
    std::int32_t dots[panel_outputs] = {};
    for (auto i = begin; i < end; ++i) {
        for (std::int64_t lane = 0; lane < panel_outputs; ++lane) dots[lane] += record.values[i] * numbers[i][lane];
    }
    for (std::int64_t lane = 0; lane < panel_outputs; ++lane) {
        auto const dot = static_cast<float>(dots[lane]);
        sums[lane] = scales == nullptr ? std::fma(dot, record.scale, sums[lane])
                                       : std::fma(dot * record.scale, scales[lane], sums[lane]);
    }
}

/// A block of a panel: its codes as whole numbers, and the scales of the inputs that are being added.
struct RoundedPanelBlock {
    std::int32_t numbers[quant_block][panel_outputs];
    float scale[panel_outputs];
    float shift[panel_outputs];
};

/// Multiplies by activations of eight bits.
///
/// Order  a block of 32 inputs (of Q6_K each half, of int4 each group in it) after another:
///        sum = fma(float(dot) * unit, scale, sum), where `dot` is the sum of products of whole numbers, `unit` the activations' scale and `scale` the weight's; int8, whose
///        scale is for a whole row: sum = fma(float(dot), unit, sum), multiplied by it at the end. After each block with a minimum
///        sum = fma(unit * float(sum of the activations' numbers), minimum, sum). Whole numbers are below 2^24: each product and
///        each fma rounds once, and nothing else does.
inline void multiply_rounded(ProductTask const& task) {
    auto const& weight = task.weight;
    auto const format = weight.format;
    auto const kind = quant_traits(format);
    bool const has_row_scale = traits(format).scales == ScalePlace::row;
    // Twice the values of e2m1 are whole numbers.
    float const factor = host_format(format).value == CodeValue::e2m1 ? 0.5F : 1.0F;
    auto const stretch = stretch_inputs(format, weight.group);
    auto const shared = scale_inputs(format, weight.group);
    float sums[quant_rows][panel_outputs];
    RoundedPanelBlock block;
    for (auto panel = task.first_panel; panel < task.last_panel; ++panel) {
        auto const outputs = std::min(panel_outputs, weight.outputs - panel * panel_outputs);
        auto const* const data = weight.data + panel * weight.stride;
        for (std::int64_t first_row = 0; first_row < task.rows; first_row += quant_rows) {
            auto const rows = std::min(quant_rows, task.rows - first_row);
            std::fill_n(&sums[0][0], quant_rows * panel_outputs, 0.0F);
            auto const first_block = task.inputs.begin / quant_block;
            for (auto first = first_block * quant_block; first < task.inputs.end; first += quant_block) {
                auto const begin = first / stretch * stretch;
                auto const* const scales =
                    data + (begin == 0 ? 0 : first / stretch * stretch_bytes(format, stretch, weight.group));
                auto const inputs = std::min(stretch, weight.inputs - begin);
                read_numbers(weight,
                             scales + stretch_scale_bytes(format, inputs, weight.group) +
                                 (first - begin) / quant_block * code_block_bytes(kind.bits),
                             block.numbers);
                auto const last = std::min(quant_block, task.inputs.end - first);
                auto const record_at = (first / quant_block - first_block) * std::int64_t{sizeof(RoundedRecord)};
                for (std::int64_t run = 0; run < last;) {
                    // Inputs up to the next that has another scale.
                    auto end = std::min(last, run + quant_block / kind.parts);
                    if (shared < quant_block || quant_layout(format).scale_inputs == 0)
                        end = std::min(end, ((first - begin + run) / shared + 1) * shared - (first - begin));
                    for (std::int64_t lane = 0; lane < panel_outputs && !has_row_scale; ++lane) {
                        auto const at = first - begin + run;
                        auto const found = scale_at(weight, scales, at, at / shared, lane);
                        block.scale[lane] = factor * found.scale;
                        block.shift[lane] = found.shift;
                    }
                    for (std::int64_t row = 0; row < rows; ++row) {
                        auto const& record = *reinterpret_cast<RoundedRecord const*>(
                            task.prepared + (first_row + row) * task.prepared_stride + record_at);
                        add_run(record, block.numbers, run, end, has_row_scale ? nullptr : block.scale, sums[row]);
                        if (!kind.has_minimum) continue;
                        for (std::int64_t lane = 0; lane < panel_outputs; ++lane)
                            sums[row][lane] = std::fma(record.sum, block.shift[lane], sums[row][lane]);
                    }
                    run = end;
                }
            }
            for (std::int64_t row = 0; row < rows; ++row) {
                for (std::int64_t lane = 0; lane < panel_outputs && has_row_scale; ++lane)
                    sums[row][lane] *= float_at(data + 4 * lane);
                std::copy_n(sums[row], outputs, task.out + (first_row + row) * task.out_stride + panel * panel_outputs);
            }
        }
    }
}

}  // namespace detail::portable

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
