// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The part of a parameter that a rank holds: some columns of some rows of its tensor, packed in this order.
///
/// Shapes  of a tensor [rows, columns]; a vector has one column
struct ParameterPiece {
    std::vector<UnitRange> rows;
    std::vector<UnitRange> columns;

    [[nodiscard]] static std::int64_t count(std::vector<UnitRange> const& ranges) {
        std::int64_t sum = 0;
        for (auto const& range : ranges) sum += range.size();
        return sum;
    }
    [[nodiscard]] std::int64_t width() const { return count(columns); }
    [[nodiscard]] std::int64_t elements() const { return count(rows) * width(); }
    /// Where an element lies among those of the piece.
    [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
        return position(rows, row) * width() + position(columns, column);
    }
    /// Calls `call(whole, own, count)` for elements that lie together in the tensor, in the piece's order: where the first lies in either.
    /// `stride` is the tensor's number of columns.
    template <class Call>
    void for_each_run(std::int64_t stride, Call&& call) const {
        std::int64_t own = 0;
        bool const has_all = columns.size() == 1 && columns.front().size() == stride;
        for (auto const& range : rows) {
            if (has_all) {
                if (range.size() > 0) call(range.begin * stride, own, range.size() * stride);
                own += range.size() * stride;
                continue;
            }
            for (auto row = range.begin; row < range.end; ++row) {
                for (auto const& some : columns) {
                    if (some.size() > 0) call(row * stride + some.begin, own, some.size());
                    own += some.size();
                }
            }
        }
    }

    /// Where rows of this piece lie among its elements, what lies together at once. `part` has the same columns.
    [[nodiscard]] std::vector<UnitRange> runs_of(ParameterPiece const& part) const {
        if (part == *this) return {{0, elements()}};
        std::vector<UnitRange> out;
        for (auto const& range : part.rows) {
            auto const begin = position(rows, range.begin) * width();
            auto const end = begin + range.size() * width();
            if (!out.empty() && out.back().end == begin)
                out.back().end = end;
            else if (begin < end)
                out.push_back({begin, end});
        }
        return out;
    }

    friend bool operator==(ParameterPiece const&, ParameterPiece const&) = default;

private:
    [[nodiscard]] static std::int64_t position(std::vector<UnitRange> const& ranges, std::int64_t index) {
        std::int64_t before = 0;
        for (auto const& range : ranges) {
            if (index >= range.begin && index < range.end) return before + index - range.begin;
            before += range.size();
        }
        return -1;
    }
};

/// How tensor-parallel ranks share a parameter, by rank: what each has, with gradient and optimizer's state; the rows of it that no
/// rank after it has (key-value heads are those of all ranks that read them); and what it holds a copy of, cut along the other axis, for
/// the product whose sum no rank can take alone. Empty: every rank has all of it.
struct ParameterCut {
    std::vector<ParameterPiece> own;
    std::vector<ParameterPiece> counted;
    std::vector<ParameterPiece> turned;

    [[nodiscard]] bool is_whole() const { return own.empty(); }

    friend bool operator==(ParameterCut const&, ParameterCut const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
