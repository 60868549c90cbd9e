// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/mapped_pages.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/parallel/policy.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Inputs of a weight that cannot be parted: a quantised block, or the elements that share a scale.
[[nodiscard]] constexpr std::int64_t input_grain(WeightFormat format, std::int64_t group = 0) {
    auto const block = traits(format).block_elements;
    return traits(format).scales == ScalePlace::group && group > 0 ? std::lcm(block, group) : block;
}

/// Inputs that a leaf of a fixed tree is made of: those that cannot be parted, and of formats whose codes back ends multiply in
/// blocks of 32, whole blocks. A block that two leaves shared would be multiplied for each.
[[nodiscard]] constexpr std::int64_t leaf_grain(WeightFormat format, std::int64_t group = 0) {
    constexpr std::int64_t multiplied_together = 32;
    auto const scales = traits(format).scales;
    bool const is_cut_anywhere = scales == ScalePlace::row || scales == ScalePlace::group;
    auto const grain = input_grain(format, group);
    return is_cut_anywhere ? std::lcm(grain, multiplied_together) : grain;
}

/// What the inputs of a weight are sharded by: those of heads by `input`, those that a policy cuts by its own.
struct WeightGrain {
    std::int64_t input = 1;
    std::int64_t leaf = 1;
};
[[nodiscard]] constexpr WeightGrain weight_grain(WeightFormat format, std::int64_t group = 0) {
    return {input_grain(format, group), leaf_grain(format, group)};
}

/// The cut of a width without heads by a policy.
template <ReductionPolicy Policy>
[[nodiscard]] constexpr InputPieces cut_width(std::int64_t width, WeightGrain const& grain) {
    return Policy::cut(width, Policy::has_fixed_tree ? grain.leaf : grain.input);
}

/// A part of a weight: some rows and a range of inputs, as a source of its own. It copies only what does not lie together.
class WeightSlice {
public:
    WeightSlice(WeightSlice&&) noexcept = default;
    WeightSlice& operator=(WeightSlice&&) noexcept = default;

    [[nodiscard]] WeightSource const& source() const { return source_; }

private:
    WeightSlice() = default;
    friend Result<WeightSlice> slice_weight(WeightSource const&, std::span<UnitRange const>, UnitRange, std::int64_t);

    WeightSource source_;
    std::vector<std::byte> data_;
    std::vector<std::byte> scales_;
};

/// Cuts rows (outputs) and inputs out of a weight, after `lead` inputs of zero (int8 only, whose blocks may be parted). The
/// result may view `whole`, whose bytes outlive it.
///
/// Errors  shape_mismatch where the bytes are not those of the shape, or ranges lie outside of it; invalid_argument where a range
///         parts a quantised block, with the block
[[nodiscard]] inline Result<WeightSlice> slice_weight(WeightSource const& whole, std::span<UnitRange const> rows,
                                                      UnitRange inputs, std::int64_t lead = 0) {
    Error error{ErrorCode::shape_mismatch};
    error.in("weight");
    auto const bytes = [&](std::int64_t count) { return detail::data_bytes(whole.format, count); };
    // One scale per row serves every part of the row.
    bool const has_row_scale = traits(whole.format).scales == ScalePlace::row;
    auto const scales = [&](std::int64_t count) {
        return has_row_scale ? std::int64_t{0} : detail::scale_bytes(whole.format, count, whole.group);
    };
    auto const row_bytes = bytes(whole.inputs);
    auto const row_scales = detail::scale_bytes(whole.format, whole.inputs, whole.group);
    if (whole.outputs < 0 || whole.inputs < 0) return error.because("has a negative extent");
    if (static_cast<std::int64_t>(whole.data.size()) != whole.outputs * row_bytes) {
        return error.at("data")
            .because("has another number of bytes than its shape and format")
            .got(static_cast<std::int64_t>(whole.data.size()))
            .expected(whole.outputs * row_bytes);
    }
    if (static_cast<std::int64_t>(whole.scales.size()) != whole.outputs * row_scales) {
        return error.at("scales")
            .because("have another number of bytes than its shape and format")
            .got(static_cast<std::int64_t>(whole.scales.size()))
            .expected(whole.outputs * row_scales);
    }
    if (inputs.begin < 0 || inputs.end < inputs.begin || inputs.end > whole.inputs)
        return error.at("inputs").because("the range leaves the weight").got(inputs.end).at_most(whole.inputs);
    auto const grain = input_grain(whole.format, whole.group);
    if (inputs.size() > 0 && (inputs.begin % grain != 0 || (inputs.end % grain != 0 && inputs.end != whole.inputs))) {
        return Error{ErrorCode::invalid_argument}
            .in("weight")
            .at("inputs")
            .because("the range parts a block of " + std::string(name_of(whole.format)))
            .got(inputs.begin % grain != 0 ? inputs.begin : inputs.end)
            .multiple_of(grain)
            .fix("cut where blocks begin");
    }
    std::int64_t outputs = 0;
    for (auto const& range : rows) {
        if (range.begin < 0 || range.end < range.begin || range.end > whole.outputs)
            return error.at("rows").because("the range leaves the weight").got(range.end).at_most(whole.outputs);
        outputs += range.size();
    }

    WeightSlice slice;
    slice.source_ = whole;
    slice.source_.outputs = outputs;
    SHARDWISE_ASSERT(lead == 0 || has_row_scale);
    slice.source_.inputs = lead + inputs.size();
    bool const has_all_inputs = inputs.size() == whole.inputs && lead == 0;
    bool const is_view = has_all_inputs && rows.size() == 1;
    // Rows of a tensor; of each the bytes [first, last), after zeros.
    auto const take = [&](std::span<std::byte const> from, std::int64_t stride, std::int64_t first, std::int64_t last,
                          std::int64_t zeros, std::vector<std::byte>& copy) -> std::span<std::byte const> {
        auto const size = static_cast<std::size_t>(last - first);
        if (is_view) {
            return from.subspan(static_cast<std::size_t>(rows[0].begin * stride),
                                static_cast<std::size_t>(rows[0].size() * stride));
        }
        auto const row_size = size + static_cast<std::size_t>(zeros);
        copy.resize(static_cast<std::size_t>(outputs) * row_size);
        auto* to = copy.data();
        for (auto const& range : rows) {
            for (auto row = range.begin; row < range.end && size > 0; ++row, to += row_size)
                std::memcpy(to + zeros, from.data() + static_cast<std::size_t>(row * stride + first), size);
        }
        return copy;
    };
    slice.source_.is_mapped = whole.is_mapped && is_view;
    slice.source_.data = take(whole.data, row_bytes, bytes(inputs.begin), bytes(inputs.end), lead, slice.data_);
    auto const first_scale = has_row_scale ? 0 : scales(inputs.begin);
    auto const last_scale = has_row_scale ? row_scales : scales(inputs.end);
    slice.source_.scales = take(whole.scales, row_scales, first_scale, last_scale, 0, slice.scales_);
    for (auto const& range : rows) {
        if (!whole.is_mapped || is_view) break;
        detail::drop_pages(whole.data.subspan(static_cast<std::size_t>(range.begin * row_bytes),
                                              static_cast<std::size_t>(range.size() * row_bytes)));
    }
    return Result<WeightSlice>(std::move(slice));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
