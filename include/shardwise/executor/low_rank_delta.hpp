// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/split.hpp>

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

    /// Some columns of the right half [rank, columns.size()], times the scale: for all of the rows that `add` is given.
    [[nodiscard]] std::vector<float> scaled_right(UnitRange columns) const {
        auto const width = columns.size();
        std::vector<float> out(static_cast<std::size_t>(rank() * width));
        if (is_table) {
            std::vector<float> row(static_cast<std::size_t>(rank()));
            for (std::int64_t j = 0; j < width; ++j) {
                decode_row(right, columns.begin + j, {0, rank()}, row.data());
                for (std::int64_t k = 0; k < rank(); ++k)
                    out[static_cast<std::size_t>(k * width + j)] = row[static_cast<std::size_t>(k)];
            }
        } else {
            for (std::int64_t k = 0; k < rank(); ++k) decode_row(right, k, columns, out.data() + k * width);
        }
        for (auto& each : out) each = static_cast<float>(scale * static_cast<double>(each));
        return out;
    }

    /// Adds the product to some rows of the weight. The order of the sum is that of the rank, whatever is computed together.
    ///
    /// Shapes  scaled_right [rank, width], out [rows.size(), width]
    void add(UnitRange rows, std::int64_t width, std::vector<float> const& scaled_right, float* out) const {
        std::vector<float> factors(static_cast<std::size_t>(rank()));
        std::vector<double> sums(static_cast<std::size_t>(width));
        for (auto row = rows.begin; row < rows.end; ++row, out += width) {
            if (is_table) {
                for (std::int64_t k = 0; k < rank(); ++k) decode_row(left, k, {row, row + 1}, factors.data() + k);
            } else {
                decode_row(left, row, {0, rank()}, factors.data());
            }
            sums.assign(sums.size(), 0.0);
            for (std::int64_t k = 0; k < rank(); ++k) {
                auto const factor = static_cast<double>(factors[static_cast<std::size_t>(k)]);
                auto const* const from = scaled_right.data() + k * width;
                // A product of two floats is exact in double: it makes no difference whether it is contracted.
                for (std::int64_t j = 0; j < width; ++j)
                    sums[static_cast<std::size_t>(j)] += factor * static_cast<double>(from[j]);
            }
            for (std::int64_t j = 0; j < width; ++j)
                out[j] = static_cast<float>(static_cast<double>(out[j]) + sums[static_cast<std::size_t>(j)]);
        }
    }

private:
    static void decode_row(WeightSource const& source, std::int64_t row, UnitRange columns, float* out) {
        detail::decode_source(source, row, columns.begin, columns.size(), out);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
