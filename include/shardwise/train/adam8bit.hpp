// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/adamw.hpp>
#include <shardwise/train/detail/dynamic_map.hpp>
#include <shardwise/train/optimizer.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// AdamW whose two moments take a byte each: a number of the dynamic maps, times the largest size within its block of 256
/// elements. Parameters of fewer than 4,096 elements keep theirs in float. A step decodes a block, takes AdamW's step on it and
/// encodes it: each moment becomes the nearest number of its map, the smaller one of two that are as near.
///
/// Cut between blocks, a parameter's shares give the bits of the whole.
///
/// Memory  2 bytes for each element, 8 for each block; 8 for each element of small parameters
/// Source  Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2022; bitsandbytes 0.50 (maps, blocks, small parameters)
struct Adam8bit {
    static constexpr std::string_view name = "adam8bit";
    static constexpr std::int64_t block = 256;
    static constexpr std::int64_t share_multiple = block;
    static constexpr bool needs_whole_matrix = false;
    /// Parameters of fewer elements keep float moments.
    static constexpr std::int64_t min_elements = 4096;

    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1;

    /// Errors  invalid_argument
    [[nodiscard]] Result<> check() const {
        auto checked = adamw().check();
        if (!checked) return Error{checked.error()}.in(name);
        return checked;
    }

    [[nodiscard]] StateArrays state(std::int64_t elements, UnitRange range) const {
        if (elements < min_elements) return adamw().state(elements, range);
        auto const blocks = ceil_divide(range.size(), block);
        StateArrays arrays;
        arrays.add({"exp_avg", Dtype::u8, range.size()});
        arrays.add({"exp_avg_sq", Dtype::u8, range.size()});
        arrays.add({"exp_avg_absmax", Dtype::f32, blocks, block});
        arrays.add({"exp_avg_sq_absmax", Dtype::f32, blocks, block});
        return arrays;
    }

    /// Order   on `stream`, on the threads of its context
    /// Errors  shape_mismatch, also where a share does not begin with a block; invalid_argument; what the stream says of its
    ///         instruction set
    [[nodiscard]] Result<> update(OptimizerStep const& step, ParameterRange const& range, HostStream& stream) const {
        if (range.elements < min_elements) {
            // As the large ones: what may be cut does not depend on the size.
            auto const known = detail::check_update(name, step, range, state(range.elements, range.range), block);
            return known ? adamw().update(step, range, stream) : known;
        }
        if (auto const checked = check(); !checked) return checked;
        auto const known = detail::check_update(name, step, range, state(range.elements, range.range), block);
        if (!known) return known;
        if (!stream.isa()) return stream.isa().error();
        auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(optimizers::adamw));
        auto const elements = range.range.size();
        auto* const weights = range.weights.data();
        auto const* const gradients = range.gradients.data();
        auto* const first = reinterpret_cast<std::uint8_t*>(range.state[0]);
        auto* const second = reinterpret_cast<std::uint8_t*>(range.state[1]);
        auto* const first_max = reinterpret_cast<float*>(range.state[2]);
        auto* const second_max = reinterpret_cast<float*>(range.state[3]);
        auto const update = [=, task = adamw().task(step, range.decays)](std::int64_t begin, std::int64_t end) {
            std::array<float, block> means;
            std::array<float, block> squares;
            for (auto i = begin; i < end; ++i) {
                auto const at = i * block;
                auto const size = std::min(block, elements - at);
                decode(detail::signed_dynamic_map, first + at, size, first_max[i], means.data());
                decode(detail::unsigned_dynamic_map, second + at, size, second_max[i], squares.data());
                kernel(weights + at, gradients + at, means.data(), squares.data(), size, task);
                first_max[i] = encode(detail::signed_dynamic_map, means.data(), size, first + at);
                second_max[i] = encode(detail::unsigned_dynamic_map, squares.data(), size, second + at);
            }
        };
        Host::launch(ceil_divide(elements, block), update, stream, blocks_at_once);
        return {};
    }

private:
    using Kernel = void (*)(float*, float const*, float*, float*, std::int64_t, detail::AdamwTask const&);
    static constexpr std::int64_t blocks_at_once = 8;

    [[nodiscard]] AdamW adamw() const {
        return {.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = weight_decay};
    }

    static void decode(detail::DynamicMap const& map, std::uint8_t const* codes, std::int64_t count, float largest,
                       float* out) {
        for (std::int64_t i = 0; i < count; ++i) out[i] = map.values[codes[i]] * largest;
    }
    /// Returns the largest size. What is infinite or undefined stays so: its block decodes to nothing else.
    static float encode(detail::DynamicMap const& map, float const* values, std::int64_t count, std::uint8_t* codes) {
        float largest = 0.0F;
        for (std::int64_t i = 0; i < count; ++i) {
            auto const size = std::abs(values[i]);
            largest = size != size || size > largest ? size : largest;
            if (largest != largest) break;
        }
        for (std::int64_t i = 0; i < count; ++i) codes[i] = map.nearest(largest > 0.0F ? values[i] / largest : 0.0F);
        return largest;
    }
};
static_assert(OptimizerRule<Adam8bit>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
