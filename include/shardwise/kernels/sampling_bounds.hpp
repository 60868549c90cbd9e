// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/check_sampling.hpp>
#include <shardwise/kernels/sampling_row.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a sampling table has place for.
struct SamplingBounds {
    std::int64_t rows = 1;
    std::int64_t vocabulary = 1;
    /// Tokens of all histories that a penalty counts together; 0 where no row has a penalty.
    std::int64_t history = 0;
};

/// How each row of a step is sampled, as a back end's kernel reads it: kernels/sampling_table.hpp and that of kernels/device/.
template <class Backend>
class SamplingTable;

namespace detail {

/// Tokens of a history that change a logit.
[[nodiscard]] inline std::int64_t penalised_tokens(SamplingRow const& row) {
    return row.options.repetition_penalty == 1.0F ? 0 : static_cast<std::int64_t>(row.history.size());
}

/// Errors  invalid_argument for bounds that are too small, or beyond 31 bits
[[nodiscard]] inline Result<> check_sampling_bounds(SamplingBounds const& bounds) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    auto const check = [](std::string_view place, std::int64_t got, std::int64_t least) -> Result<> {
        if (got >= least && got <= most) return {};
        return Error{ErrorCode::invalid_argument}
            .in("sampling table")
            .at(place)
            .because("is no size that a table has")
            .got(got)
            .between(least, most);
    };
    if (auto const checked = check("rows", bounds.rows, 1); !checked) return checked;
    if (auto const checked = check("vocabulary", bounds.vocabulary, 1); !checked) return checked;
    return check("history", bounds.history, 0);
}

/// Errors  invalid_argument for options outside of their range; capacity_exceeded for more than a table has place for
[[nodiscard]] inline Result<> check_sampling_rows(std::span<SamplingRow const> rows, SamplingBounds const& bounds) {
    std::int64_t history = 0;
    for (auto const& row : rows) {
        if (auto const checked = check_sampling(row, bounds.vocabulary); !checked) return checked;
        history += penalised_tokens(row);
    }
    auto const check = [](std::string_view place, std::int64_t got, std::int64_t most) -> Result<> {
        if (got <= most) return {};
        return Error{ErrorCode::capacity_exceeded}
            .in("sampling table")
            .at(place)
            .because("are more than the table was made for")
            .got(got)
            .at_most(most);
    };
    auto const count = static_cast<std::int64_t>(rows.size());
    if (auto const checked = check("rows", count, bounds.rows); !checked) return checked;
    return check("history", history, bounds.history);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
