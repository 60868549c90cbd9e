// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/input_pieces.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace shardwise;

namespace {

/// The largest share of any rank, as a part of the whole.
double largest_share(InputPieces const& pieces, std::int64_t ranks) {
    std::int64_t largest = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        auto const size = pieces.inputs_of_rank(ranks, rank).size();
        largest = size > largest ? size : largest;
    }
    return static_cast<double>(largest) / static_cast<double>(pieces.inputs);
}

}  // namespace

TEST_CASE("input_pieces: ranks own all inputs once, in order, cut between grains, whatever the shape") {
    for (std::int64_t const width : {1, 31, 64, 172, 576, 1536, 11008}) {
        for (std::int64_t const block : {1, 2, 32, 64, 256}) {
            for (auto const& pieces : {block_pieces(width, block), leaf_pieces(width, block)}) {
                CAPTURE(width);
                CAPTURE(block);
                for (std::int64_t piece = 0; piece < pieces.count; ++piece) {
                    auto const inputs = pieces.inputs_of({piece, piece + 1});
                    REQUIRE(inputs.size() > 0);
                    REQUIRE(inputs.begin % block == 0);
                }
                for (std::int64_t const ranks : {1, 2, 3, 7, 8, 64, 100}) {
                    std::int64_t end = 0;
                    for (std::int64_t rank = 0; rank < ranks; ++rank) {
                        auto const own = pieces.inputs_of_rank(ranks, rank);
                        REQUIRE(own.begin == end);
                        end = own.end;
                    }
                    REQUIRE(end == width);
                }
            }
        }
    }
}

TEST_CASE("input_pieces: single inputs and single heads are sharded as split_units shards them") {
    for (std::int64_t const ranks : {1, 2, 3, 4, 5, 8}) {
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            CHECK(block_pieces(172).inputs_of_rank(ranks, rank) == split_units(172, ranks, rank));
            auto const heads = split_units(9, ranks, rank);
            CHECK(head_pieces(9, 64).inputs_of_rank(ranks, rank) == UnitRange{heads.begin * 64, heads.end * 64});
        }
    }
}

TEST_CASE(
    "leaf_pieces: no rank holds more than its part of the width and 2 %, and block by block the least that there is") {
    for (std::int64_t const width : {172, 1024, 1536, 4864, 8192, 11008, 14336, 28672}) {
        for (std::int64_t const block : {1, 32, 256}) {
            if (width % block != 0) continue;
            for (std::int64_t const ranks : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
                auto const share = largest_share(leaf_pieces(width, block), ranks);
                auto const least = largest_share(block_pieces(width, block), ranks);
                CAPTURE(width);
                CAPTURE(block);
                CAPTURE(ranks);
                // From 64 blocks on leaves can be split finely; with fewer blocks each is a leaf.
                bool const is_least = share == least;
                bool const is_near = share <= 1.0 / static_cast<double>(ranks) + 0.02;
                CHECK((is_least || is_near));
            }
        }
    }
    for (std::int64_t const ranks : {1, 2, 3, 4, 8})
        CHECK(largest_share(leaf_pieces(172), ranks) <= 1.0 / static_cast<double>(ranks) + 0.02);
}

TEST_CASE("leaf_pieces: shares differ from the estimator's by less than a leaf and a block") {
    for (std::int64_t const ranks : {2, 3, 4, 8}) {
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            auto const own = leaf_pieces(11008).inputs_of_rank(ranks, rank).size();
            auto const estimated = split_units(11008, ranks, rank).size();
            CHECK(std::abs(own - estimated) <= 11008 / 64 + 1);
            if (64 % ranks == 0) CHECK(own == estimated);
        }
    }
}

TEST_CASE("head_pieces: as many heads share a piece as a block of the format covers") {
    CHECK(head_pieces(32, 128, 256) == InputPieces{4096, 256, 16});
    CHECK(head_pieces(9, 64, 32) == InputPieces{576, 64, 9});
    CHECK(head_pieces(9, 64) == InputPieces{576, 64, 9});
    CHECK(head_pieces(8, 48, 32) == InputPieces{384, 96, 4});
    // Heads are sharded in pairs: 16 pairs over 3 ranks.
    CHECK(head_pieces(32, 128, 256).inputs_of_rank(3, 0) == UnitRange{0, 12 * 128});
    CHECK(head_pieces(32, 128, 256).inputs_of_rank(3, 2) == UnitRange{22 * 128, 32 * 128});
}
