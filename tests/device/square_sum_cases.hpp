// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel_cases.hpp"
#include "test_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The halves of an RMS norm of rows that devices share; on the host tests/parallel has them.

namespace {

using SquareDevice = shardwise::testing::TestDevice;
using SquareBench = Bench<SquareDevice>;

/// Rows of which ranks have columns of their own, so many elements behind the memory's begin and with gaps.
template <class T>
struct SharedRows {
    InputPieces pieces;
    std::int64_t rows;
    TestRows<T> whole;

    SharedRows(InputPieces const& cut, std::int64_t count, float size)
        : pieces(cut), rows(count), whole(count, cut.inputs, cut.inputs, 0, 51, size) {}

    /// The columns of one rank.
    [[nodiscard]] TestRows<T> part(UnitRange own, std::int64_t gap, std::int64_t shift) const {
        TestRows<T> out(rows, own.size(), std::max<std::int64_t>(own.size() + gap, 1), shift, 52);
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t i = 0; i < own.size(); ++i)
                out.set(row, i, static_cast<float>(whole.at(row, own.begin + i)));
        }
        return out;
    }
    [[nodiscard]] double squares(std::int64_t row, UnitRange columns) const {
        double sum = 0.0;
        for (auto i = columns.begin; i < columns.end; ++i) sum += whole.at(row, i) * whole.at(row, i);
        return sum;
    }
};

/// The columns of each rank: whole pieces, or parts of the one that there is.
[[nodiscard]] inline std::vector<UnitRange> rank_columns(InputPieces const& pieces, std::int64_t ranks) {
    std::vector<UnitRange> all;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
        all.push_back(pieces.count > 1 ? pieces.inputs_of_rank(ranks, rank) : split_units(pieces.inputs, ranks, rank));
    return all;
}

/// The sums of a rank's columns; all floats are written.
template <class T>
[[nodiscard]] std::vector<float> sum_part(SquareBench& bench, SharedRows<T> const& of, UnitRange own, std::int64_t gap,
                                          std::int64_t shift) {
    auto const part = of.part(own, gap, shift);
    auto in = bench.send(part.values);
    auto const width = 3 * of.pieces.count;
    auto sums = bench.send(std::vector<float>(static_cast<std::size_t>(of.rows * width), 77.0F));
    TensorView<T const, 2, SquareDevice> const from = part.view(in);
    REQUIRE(sum_squares<T>(from, SquareCut{of.pieces, own.begin, own}, sums.matrix(of.rows, width), bench.stream()));
    return bench.fetch(sums);
}

/// Sums and norms of rows that so many ranks share, against double; by pieces the sums have the bits of one rank's.
template <class T>
void check_shared_rows(SquareBench& bench, InputPieces const& pieces, std::int64_t ranks, std::int64_t rows,
                       std::int64_t gap, std::int64_t shift, float size = 1.0F, float epsilon = 1e-5F) {
    CAPTURE(pieces.inputs);
    CAPTURE(pieces.count);
    CAPTURE(ranks);
    CAPTURE(size);
    SharedRows<T> const of(pieces, rows, size);
    auto const width = 3 * pieces.count;
    auto const alone = sum_part(bench, of, UnitRange{0, pieces.inputs}, 0, 0);
    std::vector<float> all(alone.size(), 0.0F);
    for (auto const own : rank_columns(pieces, ranks)) {
        auto const part = sum_part(bench, of, own, gap, shift);
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (pieces.count > 1) REQUIRE((part[i] == 0.0F || all[i] == 0.0F));
            all[i] += part[i];
        }
    }
    auto const has_bits = [](float a, float b) {
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    if (pieces.count > 1) CHECK(std::equal(all.begin(), all.end(), alone.begin(), alone.end(), has_bits));

    // A thread's elements of a piece, a warp's, a block's and the ranks'.
    auto const largest = (pieces.grains() / pieces.count + 1) * pieces.grain;
    auto const chain = static_cast<double>(largest) / 16 + 8 + 1 + 37 + static_cast<double>(ranks);
    bool const is_plain = size == 1.0F;
    for (std::int64_t row = 0; row < rows && is_plain; ++row) {
        for (std::int64_t piece = 0; piece < pieces.count; ++piece) {
            auto const exact = of.squares(row, pieces.inputs_of({piece, piece + 1}));
            auto const sum = static_cast<double>(all[static_cast<std::size_t>(row * width + 3 * piece)]);
            REQUIRE(std::abs(sum - exact) <= exact * chain * 0x1p-24);
        }
    }
    auto const roundings = (chain + static_cast<double>(pieces.count)) / 2 + 7;
    auto const sums = bench.send(all);
    auto const weight = numbers(pieces.inputs, 53);
    TensorView<float const, 2, SquareDevice> const added(sums.data(), {rows, width});
    for (auto const own : rank_columns(pieces, ranks)) {
        auto const part = of.part(own, gap, shift);
        auto in = bench.send(part.values);
        auto const factors = bench.send(std::vector<float>(weight.begin() + own.begin, weight.begin() + own.end));
        TensorView<T const, 2, SquareDevice> const from = part.view(in);
        REQUIRE(scale_by_squares<T>(from, added, pieces.inputs,
                                    TensorView<float const, 1, SquareDevice>(factors.view()), part.view(in), epsilon,
                                    bench.stream(), 1.0F));
        auto const out = part.fetched(bench, in);
        for (std::int64_t row = 0; row < rows; ++row) {
            auto const mean = of.squares(row, {0, pieces.inputs}) / static_cast<double>(pieces.inputs);
            auto const scale = 1.0 / std::sqrt(mean + static_cast<double>(epsilon));
            for (std::int64_t i = 0; i < own.size(); ++i) {
                auto const factor = static_cast<double>(weight[static_cast<std::size_t>(own.begin + i)]) + 1.0;
                auto const expected = part.at(row, i) * scale * factor;
                REQUIRE(std::abs(out.at(row, i) - expected) <=
                        std::abs(expected) * (roundings * 0x1p-24 + roundoff<T>)*1.01 + smallest<T>);
            }
        }
    }
}

}  // namespace

TEST_CASE("sum_squares has the bits of a piece whoever has it, and scale_by_squares is the norm of whole rows") {
    auto const bench = open_bench<SquareDevice>();
    if (!bench) return;
    // Heads, of packs and not, that begin on packs and not; more ranks than heads; leaves; no rows, one column.
    for (std::int64_t const ranks : {1, 2, 3, 5}) {
        check_shared_rows<float>(*bench, head_pieces(4, 16), ranks, 3, 0, 0);
        check_shared_rows<float>(*bench, head_pieces(5, 33), ranks, 2, 3, 1);
        check_shared_rows<Bfloat16>(*bench, head_pieces(6, 64), ranks, 35, 1, 1);
        check_shared_rows<Float16>(*bench, head_pieces(4, 24), ranks, 2, 8, 0);
        check_shared_rows<Bfloat16>(*bench, leaf_pieces(1100, 4), ranks, 2, 4, 3);
        // One piece, which all have a part of.
        check_shared_rows<float>(*bench, {67, 67, 1}, ranks, 3, 0, 0);
        check_shared_rows<Bfloat16>(*bench, {4096, 4096, 1}, ranks, 2, 0, 0);
    }
    // Pieces that a block adds up.
    check_shared_rows<float>(*bench, head_pieces(2, 1500), 2, 2, 1, 1);
    check_shared_rows<float>(*bench, head_pieces(3, 4), 2, 0, 0, 0);
    check_shared_rows<float>(*bench, {1, 1, 1}, 1, 1, 0, 0);
    // Squares that no float has.
    for (float const size : {0x1p70F, 0x1p-70F, 0x1p-120F}) {
        check_shared_rows<float>(*bench, head_pieces(4, 20), 2, 2, 1, 1, size, 0.0F);
        check_shared_rows<float>(*bench, {1200, 1200, 1}, 2, 2, 0, 0, size, 0.0F);
    }
    check_shared_rows<float>(*bench, head_pieces(4, 20), 2, 2, 0, 0, 0.0F);
}

TEST_CASE("sum_squares and scale_by_squares refuse sums that are not of the rows") {
    auto const bench = open_bench<SquareDevice>();
    if (!bench) return;
    auto values = bench->send(std::vector<float>(64, 1.0F));
    TensorView<float const, 2, SquareDevice> const in(values.data(), {2, 8});
    TensorView<float const, 1, SquareDevice> const weight(values.data(), {8});
    auto const cut = SquareCut{head_pieces(4, 4), 8, {8, 16}};
    auto const refused = [](Result<> const& done, char const* why) {
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::shape_mismatch);
        CHECK(done.error().message().find(why) != std::string::npos);
    };
    auto& stream = bench->stream();
    refused(sum_squares<float>(in, cut, values.matrix(3, 12), stream), "not of the input's rows");
    refused(sum_squares<float>(in, cut, values.matrix(2, 4), stream), "three floats for each piece");
    refused(sum_squares<float>(in, {cut.pieces, 4, {4, 16}}, values.matrix(2, 12), stream), "are not the input's");
    refused(sum_squares<float>(in, {cut.pieces, 8, {4, 12}}, values.matrix(2, 12), stream), "are not the input's");
    TensorView<float const, 2, SquareDevice> const sums(values.data(), {2, 12});
    auto const out = values.matrix(2, 8);
    refused(scale_by_squares<float>(in, {values.data(), {3, 12}}, 16, weight, out, 0.0F, stream), "input's rows");
    refused(scale_by_squares<float>(in, sums, 7, weight, out, 0.0F, stream), "input's rows");
    refused(scale_by_squares<float>(in, {values.data(), {2, 11}}, 16, weight, out, 0.0F, stream), "three floats");
    refused(scale_by_squares<float>(in, sums, 16, {values.data(), {7}}, out, 0.0F, stream), "as wide as a row");
}
