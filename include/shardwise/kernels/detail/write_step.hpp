// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/step_layout.hpp>
#include <shardwise/kernels/step_bounds.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a step has.
struct StepCounts {
    std::int64_t tokens = 0;
    std::int64_t sequences = 0;
    std::int64_t wanted = 0;
};

/// Pages in which a sequence's tokens lie, the new ones included, and those of its source.
[[nodiscard]] inline std::int64_t pages_of(StepLayout const& layout, StepSequence const& sequence) {
    return ((std::max(sequence.past + sequence.rows, sequence.source) - 1) >> layout.page_shift) + 1;
}

/// Errors  invalid_argument, as StepTable::write
[[nodiscard]] inline Result<> check_step_sequence(StepLayout const& layout, StepSequence const& sequence) {
    auto const refused = [] { return Error{ErrorCode::invalid_argument}.in("step table"); };
    if (sequence.rows < 1 || sequence.rows > layout.max_tokens)
        return refused()
            .at("rows")
            .because("are none, or more than a step has")
            .got(sequence.rows)
            .between(1, layout.max_tokens);
    constexpr std::int64_t longest = std::int64_t{1} << 30U;
    if (sequence.past < 0 || sequence.past > longest)
        return refused().at("past").because("is no number of tokens").got(sequence.past).between(0, longest);
    if (sequence.source < 0 || sequence.source > longest)
        return refused().at("source").because("is no number of tokens").got(sequence.source).between(0, longest);
    if (sequence.slot < 0 || sequence.slot > std::numeric_limits<std::int32_t>::max()) {
        return refused()
            .at("slot")
            .because("is no number of a state")
            .got(sequence.slot)
            .between(0, std::numeric_limits<std::int32_t>::max());
    }
    if (static_cast<std::int64_t>(sequence.pages.size()) != layout.groups) {
        return refused()
            .at("pages")
            .because("are not a list for each group")
            .got(static_cast<std::int64_t>(sequence.pages.size()))
            .expected(layout.groups);
    }
    auto const needed = pages_of(layout, sequence);
    for (auto const& list : sequence.pages) {
        auto const listed = static_cast<std::int64_t>(list.size());
        if (needed > layout.pages || needed > listed) {
            return refused()
                .at("pages")
                .because("are fewer than the sequence's tokens lie in")
                .got(std::min(listed, layout.pages))
                .at_least(needed);
        }
        for (auto const page : list.first(static_cast<std::size_t>(needed))) {
            if (page < 0) return refused().at("pages").because("name one that no memory has").got(page).at_least(0);
        }
    }
    return {};
}

/// Errors  invalid_argument, as StepTable::write
[[nodiscard]] inline Result<> check_written_step(StepLayout const& layout, StepInput const& step,
                                                 std::int64_t shown = 0) {
    auto const refused = [] { return Error{ErrorCode::invalid_argument}.in("step table"); };
    auto const check_count = [&](std::string_view name, std::size_t count, std::int64_t most) -> Result<> {
        if (static_cast<std::int64_t>(count) <= most) return {};
        return refused()
            .at(name)
            .because("are more than the table has")
            .got(static_cast<std::int64_t>(count))
            .at_most(most);
    };
    if (auto const checked = check_count("ids", step.ids.size(), layout.max_tokens); !checked) return checked;
    if (auto const checked = check_count("sequences", step.sequences.size(), layout.max_sequences); !checked)
        return checked;
    if (auto const checked = check_count("wanted", step.wanted.size(), layout.max_wanted); !checked) return checked;
    std::int64_t rows = 0;
    for (auto const& sequence : step.sequences) {
        if (auto const checked = check_step_sequence(layout, sequence); !checked) return checked;
        rows += sequence.rows;
    }
    auto const tokens = static_cast<std::int64_t>(step.ids.size());
    if (rows != tokens)
        return refused().at("ids").because("are not as many as the sequences' rows").got(tokens).expected(rows);
    if (shown != 0) {
        auto const most = std::min({layout.max_tokens, layout.max_sequences, layout.max_wanted});
        bool const is_single = step.ids.size() == step.sequences.size() && step.ids.size() == step.wanted.size();
        if (!is_single || shown < tokens || shown > most) {
            return refused()
                .at("rows")
                .because(is_single ? "are not those of a step's sequences and some more"
                                   : "are shown beyond the step's, whose sequences have more than one token")
                .got(shown)
                .between(tokens, most);
        }
    }
    for (auto const row : step.wanted) {
        if (row < 0 || row >= tokens)
            return refused()
                .at("wanted")
                .because("names a row that the step does not have")
                .got(row)
                .between(0, tokens - 1);
    }
    return {};
}

/// Writes a step that was checked. `greatest_pages`: of each group, becomes the greatest page of its lists, -1 without any.
[[nodiscard]] inline StepCounts write_step(StepLayout const& layout, StepInput const& step, std::int32_t* to,
                                           std::vector<std::int64_t>& greatest_pages) {
    StepCounts const counts{static_cast<std::int64_t>(step.ids.size()),
                            static_cast<std::int64_t>(step.sequences.size()),
                            static_cast<std::int64_t>(step.wanted.size())};
    auto const narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    std::fill_n(to, layout.lists, std::int32_t{0});
    to[0] = narrow(counts.tokens);
    to[1] = narrow(counts.sequences);
    to[2] = narrow(counts.wanted);
    std::fill_n(to + layout.ids, layout.max_tokens, std::int32_t{-1});
    std::fill_n(to + layout.sequence, layout.max_tokens, std::int32_t{-1});
    std::fill_n(to + layout.wanted, layout.max_wanted, std::int32_t{-1});
    std::copy(step.ids.begin(), step.ids.end(), to + layout.ids);
    std::copy(step.wanted.begin(), step.wanted.end(), to + layout.wanted);
    std::fill(greatest_pages.begin(), greatest_pages.end(), std::int64_t{-1});
    std::int64_t row = 0;
    std::int64_t number = 0;
    for (auto const& sequence : step.sequences) {
        to[layout.first + number] = narrow(row);
        to[layout.rows + number] = narrow(sequence.rows);
        to[layout.past + number] = narrow(sequence.past);
        to[layout.length + number] = narrow(sequence.past + sequence.rows);
        to[layout.source + number] = narrow(sequence.source);
        to[layout.slot + number] = narrow(sequence.slot);
        auto position = narrow(sequence.past);
        for (std::int64_t i = 0; i < sequence.rows; ++i, ++row) {
            to[layout.sequence + row] = narrow(number);
            to[layout.positions + row] = to[layout.ids + row] == step.skipped_id ? -1 : position++;
        }
        auto const needed = static_cast<std::size_t>(pages_of(layout, sequence));
        auto* list = to + layout.lists + number * layout.groups * layout.pages;
        for (std::size_t group = 0; group < greatest_pages.size(); ++group, list += layout.pages) {
            auto const pages = sequence.pages[group].first(needed);
            std::copy(pages.begin(), pages.end(), list);
            for (auto const page : pages) greatest_pages[group] = std::max<std::int64_t>(greatest_pages[group], page);
        }
        ++number;
    }
    return counts;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
