// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/held_part.hpp>
#include <shardwise/executor/training/parameter_piece.hpp>
#include <shardwise/model/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A parameter that is trained, by its name in the model's tree.
struct TrainingParameter {
    std::string name;
    Tensor const* tensor = nullptr;
    /// Of its first element.
    std::int64_t begin = 0;
    /// Those that this rank holds.
    std::int64_t elements = 0;
    /// Of the whole parameter, and of a row of it.
    std::int64_t whole_elements = 0;
    std::int64_t stride = 1;
    /// What each tensor-parallel rank holds of it; whole where they do not share it.
    ParameterCut cut{};
    std::size_t rank = 0;
    /// Where those of `elements` lie that no rank after this one has: each element of the whole is of one rank's.
    std::vector<UnitRange> counted_runs{};
    /// Of the copy that is cut along the other axis, among all of those; 0 elements: there is none.
    std::int64_t turned_begin = 0;
    std::int64_t turned_elements = 0;
    /// Its number among the model's parameters, whoever has them.
    std::size_t number = 0;
    /// Whether another stage has it, too, under the first name of a tie whose other name this one reads.
    bool is_copy = false;
    /// Of a frozen product that is held in a format of its own what this rank holds, and the copy that is cut along the other axis. It is
    /// none of the floats; `elements` and `turned_elements` are those that are decoded.
    std::optional<HeldPart> held{};
    std::optional<HeldPart> held_turned{};

    /// Floats that it takes, or that the bytes of its own format take the place of; and its copy.
    [[nodiscard]] std::int64_t words() const { return held ? held->words() : elements; }
    [[nodiscard]] std::int64_t turned_words() const {
        if (held) return held_turned ? held_turned->words() : 0;
        return turned_elements;
    }
    /// How many are counted.
    [[nodiscard]] std::int64_t counted() const {
        std::int64_t sum = 0;
        for (auto const& run : counted_runs) sum += run.size();
        return sum;
    }
    /// What of a range of the rank's elements is counted.
    [[nodiscard]] std::vector<UnitRange> counted_of(UnitRange range) const {
        std::vector<UnitRange> out;
        for (auto const& run : counted_runs) {
            UnitRange const part{std::max(run.begin, range.begin), std::min(run.end, range.end)};
            if (part.begin < part.end) out.push_back(part);
        }
        return out;
    }
    /// Calls `call(whole, own, count)` for elements that lie together in the whole parameter, where they and this rank's begin; for
    /// those alone that are in `range` of the rank's.
    template <class Call>
    void for_each_run(UnitRange range, Call&& call) const {
        auto const take = [&](std::int64_t whole, std::int64_t own, std::int64_t count) {
            auto const from = std::max(own, range.begin);
            auto const end = std::min(own + count, range.end);
            if (from < end) call(whole + from - own, from, end - from);
        };
        if (cut.is_whole())
            take(0, 0, elements);
        else
            cut.own[rank].for_each_run(stride, take);
    }
    /// The same in blocks of so many elements, by their numbers, for what there is one of for each block. Where ranks share the parameter, runs
    /// and range are of whole blocks.
    template <class Call>
    void for_each_block_run(UnitRange range, std::int64_t block, Call&& call) const {
        for_each_run(range, [&](std::int64_t whole, std::int64_t own, std::int64_t count) {
            call(whole / block, own / block, ceil_divide(count, block));
        });
    }
    /// The same for several ranges, one after another.
    template <class Call>
    void for_each_block_run(std::vector<UnitRange> const& ranges, std::int64_t block, Call&& call) const {
        for (auto const& range : ranges) for_each_block_run(range, block, call);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
