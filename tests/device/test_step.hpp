// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/step_bounds.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

using Pages = std::vector<std::int32_t>;

/// A sequence of a step and its lists of pages, one for each of two groups.
struct TestSequence {
    std::int64_t past;
    std::int64_t rows;
    std::array<Pages, 2> pages;
    std::int64_t source = 0;
};

/// A step that owns what it shows.
struct TestStep {
    std::vector<std::int32_t> ids;
    std::vector<TestSequence> sequences;
    std::vector<std::int32_t> wanted;
    std::vector<std::vector<std::span<std::int32_t const>>> lists;
    std::vector<StepSequence> shown;

    TestStep(std::vector<TestSequence> given, std::vector<std::int32_t> rows)
        : sequences(std::move(given)), wanted(std::move(rows)) {
        for (auto const& sequence : sequences) {
            for (std::int64_t i = 0; i < sequence.rows; ++i) ids.push_back(static_cast<std::int32_t>(7 + ids.size()));
            lists.emplace_back(sequence.pages.begin(), sequence.pages.end());
        }
        for (std::size_t i = 0; i < sequences.size(); ++i)
            shown.push_back({sequences[i].past, sequences[i].rows, lists[i], static_cast<std::int64_t>(5 - i),
                             sequences[i].source});
    }
    [[nodiscard]] StepInput input(std::int32_t skipped_id = -1) const { return {ids, shown, wanted, skipped_id}; }
};

}  // namespace
