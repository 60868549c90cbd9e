// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/split.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a low-rank adapter adds to a weight [outputs, inputs]: scale * left * right.
///
/// Shapes  of a product left [outputs, rank] (lora_B) and right [rank, inputs] (lora_A); of a table, turned round, left
///         [rank, rows] (lora_embedding_A) and right [columns, rank] (lora_embedding_B)
struct LowRankDelta {
    WeightSource left;
    WeightSource right;
    bool is_table = false;
    double scale = 1.0;

    [[nodiscard]] std::int64_t rank() const { return is_table ? left.outputs : left.inputs; }

    /// Some columns of the right half [rank, columns.size()], times the scale and rounded to float: for all of the rows that `add` is
    /// given.
    [[nodiscard]] std::vector<double> scaled_right(UnitRange columns) const {
        auto const width = columns.size();
        std::vector<double> out(static_cast<std::size_t>(rank() * width));
        std::vector<float> row(static_cast<std::size_t>(std::max(rank(), width)));
        auto const put = [&](std::int64_t at, float value) {
            out[static_cast<std::size_t>(at)] =
                static_cast<double>(static_cast<float>(scale * static_cast<double>(value)));
        };
        if (is_table) {
            for (std::int64_t j = 0; j < width; ++j) {
                decode_row(right, columns.begin + j, {0, rank()}, row.data());
                for (std::int64_t k = 0; k < rank(); ++k) put(k * width + j, row[static_cast<std::size_t>(k)]);
            }
            return out;
        }
        for (std::int64_t k = 0; k < rank(); ++k) {
            decode_row(right, k, columns, row.data());
            for (std::int64_t j = 0; j < width; ++j) put(k * width + j, row[static_cast<std::size_t>(j)]);
        }
        return out;
    }

    /// Adds the product to some rows of the weight: each sum in double in the order of the rank, whatever is computed together, rounded
    /// once. The product of two floats is exact there: contracted or not, the bits are the same.
    ///
    /// Shapes  scaled_right [rank, width], out [rows.size(), width]
    void add(UnitRange rows, std::int64_t width, std::vector<double> const& scaled_right, float* out) const {
        auto const r = rank();
        std::vector<float> halves(static_cast<std::size_t>(r));
        std::vector<double> factors(static_cast<std::size_t>(rows.size() * r));
        for (std::int64_t i = 0; i < rows.size(); ++i) {
            auto const row = rows.begin + i;
            if (is_table) {
                for (std::int64_t k = 0; k < r; ++k) decode_row(left, k, {row, row + 1}, halves.data() + k);
            } else {
                decode_row(left, row, {0, r}, halves.data());
            }
            std::copy(halves.begin(), halves.end(), factors.begin() + i * r);
        }
        // Some columns of the right half stay in the cache for all rows.
        std::vector<double> sums(static_cast<std::size_t>(std::min(width, columns_at_once)));
        for (std::int64_t first = 0; first < width; first += columns_at_once) {
            auto const count = std::min(columns_at_once, width - first);
            for (std::int64_t i = 0; i < rows.size(); ++i) {
                auto* const sum = sums.data();
                std::fill_n(sum, count, 0.0);
                for (std::int64_t k = 0; k < r; ++k) {
                    auto const factor = factors[static_cast<std::size_t>(i * r + k)];
                    auto const* const from = scaled_right.data() + k * width + first;
                    for (std::int64_t j = 0; j < count; ++j) sum[j] += factor * from[j];
                }
                auto* const to = out + i * width + first;
                for (std::int64_t j = 0; j < count; ++j)
                    to[j] = static_cast<float>(static_cast<double>(to[j]) + sum[j]);
            }
        }
    }

private:
    /// In double, of a rank of 16, half of the smallest first-level cache.
    static constexpr std::int64_t columns_at_once = 128;

    static void decode_row(WeightSource const& source, std::int64_t row, UnitRange columns, float* out) {
        detail::decode_source(source, row, columns.begin, columns.size(), out);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
