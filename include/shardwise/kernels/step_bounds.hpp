// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/step_layout.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a step has at most.
struct StepBounds {
    std::int64_t tokens = 1;
    std::int64_t sequences = 1;
    /// Rows whose logits are wanted.
    std::int64_t wanted = 1;
    /// Lists of pages of each sequence: one for all layers that see equally far; 0 where nothing is cached.
    std::int64_t groups = 0;
    /// Pages in a list.
    std::int64_t pages = 0;
    /// Rows of a page, a power of two of 16 or more.
    std::int64_t page_rows = 16;
};

/// New tokens of one sequence.
struct StepSequence {
    /// Tokens in the cache.
    std::int64_t past = 0;
    std::int64_t rows = 1;
    /// A list of pages for each group: page i holds the tokens from i * page_rows on.
    std::span<std::span<std::int32_t const> const> pages{};
    /// Where operations that keep a state for each sequence have its own.
    std::int64_t slot = 0;
    /// Tokens of the source that was encoded for it, whose keys and values are in the same pages; 0: none.
    std::int64_t source = 0;
};

/// What changes from step to step.
struct StepInput {
    /// Of all new tokens, one sequence after another.
    std::span<std::int32_t const> ids{};
    std::span<StepSequence const> sequences{};
    /// Numbers of the rows whose logits are wanted.
    std::span<std::int32_t const> wanted{};
    /// An id that takes no position: its row's is -1 (roberta's padding). -1: none.
    std::int32_t skipped_id = -1;
};

namespace detail {

/// Errors  invalid_argument for bounds below their least, or page rows that are no power of two; size_overflow
[[nodiscard]] inline Result<StepLayout> make_step_layout(StepBounds const& bounds) {
    Error error{ErrorCode::invalid_argument};
    error.in("step table");
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    struct Bound {
        std::string_view name;
        std::int64_t value;
        std::int64_t least;
    };
    for (auto const& bound :
         {Bound{"tokens", bounds.tokens, 1}, Bound{"sequences", bounds.sequences, 1}, Bound{"wanted", bounds.wanted, 0},
          Bound{"groups", bounds.groups, 0}, Bound{"pages", bounds.pages, bounds.groups > 0 ? 1 : 0}}) {
        if (bound.value < bound.least || bound.value > most)
            return error.at(bound.name)
                .because("is not a number that a step can have")
                .got(bound.value)
                .between(bound.least, most);
    }
    bool const is_page = bounds.page_rows >= 16 && bounds.page_rows <= most &&
                         std::has_single_bit(static_cast<std::uint64_t>(bounds.page_rows));
    if (!is_page)
        return error.at("page_rows").because("is not a power of two of 16 or more").got(bounds.page_rows).at_least(16);
    auto const lists = checked_multiply(bounds.sequences, bounds.groups);
    auto const pages = lists ? checked_multiply(*lists, bounds.pages) : lists;
    // All else is a few numbers below 2^31, which 63 bits hold.
    constexpr std::int64_t rest = std::int64_t{1} << 40U;
    auto const bytes = pages && *pages <= std::numeric_limits<std::int64_t>::max() / 4 - rest ? pages : std::nullopt;
    if (!bytes) return Error{ErrorCode::size_overflow}.in("step table").at("pages").got(bounds.pages);
    return StepLayout(bounds.tokens, bounds.sequences, bounds.wanted, bounds.groups, bounds.pages,
                      std::countr_zero(static_cast<std::uint64_t>(bounds.page_rows)));
}

}  // namespace detail

/// Bytes of a step table on its back end; a device's has twice as much pinned memory beside. Nothing for bounds that `create` refuses.
[[nodiscard]] inline Optional<Bytes> step_table_bytes(StepBounds const& bounds) {
    auto const layout = detail::make_step_layout(bounds);
    if (!layout) return std::nullopt;
    return Bytes{4 * layout->size()};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
