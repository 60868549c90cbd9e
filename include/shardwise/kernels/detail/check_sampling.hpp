// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/sampling_row.hpp>

#include <cmath>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Errors  invalid_argument for an option outside of its range, or a token of the history that has no logit
[[nodiscard]] inline Result<> check_sampling(SamplingRow const& row, std::int64_t tokens) {
    auto const& options = row.options;
    auto const refuse = [](std::string_view place, std::string_view reason) {
        return Error{ErrorCode::invalid_argument}.in("sample").at(place).because(reason);
    };
    auto const is_part = [](float value) { return value >= 0.0F && value <= 1.0F; };
    if (!(options.temperature >= 0.0F) || std::isinf(options.temperature)) {
        return refuse("temperature", "must be a number of at least 0");
    }
    if (options.top_k < 0) return refuse("top_k", "must be at least 0").got(options.top_k);
    if (!is_part(options.top_p)) return refuse("top_p", "must be between 0 and 1");
    if (!is_part(options.min_p)) return refuse("min_p", "must be between 0 and 1");
    if (!(options.repetition_penalty > 0.0F) || std::isinf(options.repetition_penalty)) {
        return refuse("repetition_penalty", "must be greater than 0");
    }
    for (auto const token : row.history) {
        if (token < 0 || token >= tokens)
            return refuse("history", "has a token without a logit").got(token).between(0, tokens - 1);
    }
    return {};
}

/// The extents of logits, of what is said of their rows, and of the tokens that are chosen.
template <class Backend>
[[nodiscard]] Result<> check_sampled(TensorView<float const, 2, Backend> const& logits, std::int64_t rows,
                                     TensorView<std::int32_t, 1, Backend> const& out) {
    if (auto const known = check_views("sample", logits, out); !known) return known;
    auto const count = logits.extent(0);
    auto const tokens = logits.extent(1);
    Error error{ErrorCode::shape_mismatch};
    error.in("sample");
    if (rows != count || out.elements() != count) {
        return error.because("each row of logits needs its options and a place for its token")
            .got(out.elements() != count ? out.elements() : rows)
            .expected(count);
    }
    // Sums of weights stay below 2^63, and tokens are 32-bit numbers.
    constexpr std::int64_t longest_vocabulary = std::int64_t{1} << 22U;
    if (tokens >= 1 && tokens <= longest_vocabulary) return {};
    return error.because("there are no logits, or more than a vocabulary has")
        .got(tokens)
        .between(1, longest_vocabulary);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
