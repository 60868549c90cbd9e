// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/quant/half_bits.hpp>
#include <shardwise/train/optimizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An optimizer of weights in bf16 without float32 masters: what rounding took from a weight is kept in bf16, and added to the weight before
/// the next step (Kahan's compensated sum). An element's step:
///
///     x = w + c                as a float
///     x = what the rule makes of x
///     w = x rounded to bf16
///     c = x - w rounded to bf16
///
/// Weight and compensation have 16 digits of a weight together, where a master has 24 and bf16 alone has 8: steps below half a unit of a weight
/// are not lost.
///
/// Memory  2 bytes for each element beside the rule's state
/// Source  Zamirai et al., Revisiting BFloat16 Training, 2020, algorithm 1; optimi calls it kahan_sum
template <OptimizerRule Rule>
struct KahanSum {
    static constexpr std::string_view name = Rule::name;
    static constexpr std::int64_t share_multiple = Rule::share_multiple;
    static constexpr bool needs_whole_matrix = Rule::needs_whole_matrix;
    /// What weights are held in, and nothing else beside them.
    static constexpr Dtype weights = Dtype::bf16;
    static constexpr std::string_view compensation = "kahan_comp";

    Rule rule{};

    [[nodiscard]] Result<> check() const { return rule.check(); }

    [[nodiscard]] StateArrays state(std::int64_t elements, UnitRange range) const {
        auto arrays = rule.state(elements, range);
        arrays.add({compensation, Dtype::bf16, range.size()});
        return arrays;
    }

    /// Weights are floats that are numbers in bf16, before and after it.
    ///
    /// Order, Errors  as the rule's
    [[nodiscard]] Result<> update(OptimizerStep const& step, ParameterRange const& range, HostStream& stream) const {
        auto const own = state(range.elements, range.range);
        auto const known = detail::check_update(name, step, range, own, share_multiple);
        if (!known) return known;
        auto* const values = range.weights.data();
        auto* const lost = reinterpret_cast<std::uint16_t*>(range.state[own.count - 1]);
        auto const join = [values, lost](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) values[i] += from_bf16(lost[i]);
        };
        Host::launch(range.range.size(), join, stream, detail::optimizer_grain);
        if (auto const done = rule.update(step, range, stream); !done) return done;
        auto const split = [values, lost](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) {
                auto const weight = from_bf16(to_bf16(values[i]));
                lost[i] = to_bf16(values[i] - weight);
                values[i] = weight;
            }
        };
        Host::launch(range.range.size(), split, stream, detail::optimizer_grain);
        return {};
    }
};

namespace detail {

template <class Rule>
inline constexpr Dtype weights_dtype = Dtype::f32;
template <class Rule>
inline constexpr Dtype weights_dtype<KahanSum<Rule>> = Dtype::bf16;

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
