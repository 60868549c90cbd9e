// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/detail/product_tree.hpp>
#include <shardwise/parallel/row_linear.hpp>

#include <doctest/doctest.h>

#include "counting_backend.hpp"
#include "stored_weight.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t outputs = 37;

/// The first rank's sum of a layer on a back end.
template <class Backend>
Result<Floats> sum_of(WeightSource const& weight, InputPieces const& pieces, std::int32_t ranks, std::int64_t tokens) {
    auto const in = random_floats(tokens * weight.inputs, 21);
    auto const made = on_ranks(ranks, [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<Floats> {
        auto const layer = RowLinear<Backend, Deterministic>::create(context, weight, pieces, {ranks, comm.rank()});
        if (!layer) return layer.error();
        Floats out(index(tokens * weight.outputs));
        Floats workspace(index(layer->workspace(tokens)));
        auto const own = layer->own_inputs();
        TensorView<float const, 2, Backend> const all(in.data(), {tokens, weight.inputs});
        auto const done = layer->forward(all.columns(own.begin, own.size()), {out.data(), {tokens, weight.outputs}},
                                         {workspace.data(), {layer->workspace(tokens)}}, comm, stream);
        if (!done) return done.error();
        if (auto const finished = finish(stream); !finished) return finished.error();
        return out;
    });
    if (!made) return made.error();
    return made->front();
}

}  // namespace

TEST_CASE("product_tree: a back end that sums products and one that multiplies leaf by leaf make the same bits") {
    static_assert(SumsProducts<Host> && !SumsProducts<Counting>);
    for (auto const format : all_weight_formats) {
        constexpr std::int64_t inputs = 1280;
        Stored const stored(format, outputs, inputs);
        auto const pieces = cut_width<Deterministic>(inputs, weight_grain(format, stored.source.group));
        for (std::int32_t const ranks : {1, 3}) {
            for (std::int64_t const tokens : {1, 21}) {
                CAPTURE(name_of(format));
                CAPTURE(ranks);
                CAPTURE(tokens);
                auto const summed = sum_of<Host>(stored.source, pieces, ranks, tokens);
                auto const apart = sum_of<Counting>(stored.source, pieces, ranks, tokens);
                REQUIRE(summed);
                REQUIRE(apart);
                CHECK(is_bitwise_equal(*summed, *apart));
            }
        }
    }
}

TEST_CASE("product_tree: pieces that part int8's blocks of 32 and bf16's pairs have the same bits over any ranks") {
    for (auto const format : {WeightFormat::int8, WeightFormat::bf16, WeightFormat::f16}) {
        // 80 is 2.5 blocks; 27 parts a pair at every other head.
        for (auto const& pieces : {head_pieces(24, 80), head_pieces(24, 27)}) {
            Stored const stored(format, outputs, pieces.inputs);
            for (std::int64_t const tokens : {1, 20}) {
                auto const alone = sum_of<Host>(stored.source, pieces, 1, tokens);
                REQUIRE(alone);
                for (std::int32_t const ranks : {2, 3, 4, 5, 8}) {
                    CAPTURE(name_of(format));
                    CAPTURE(pieces.grain);
                    CAPTURE(tokens);
                    CAPTURE(ranks);
                    auto const made = sum_of<Host>(stored.source, pieces, ranks, tokens);
                    REQUIRE(made);
                    CHECK(is_bitwise_equal(*made, *alone));
                }
                // Leaf by leaf, too.
                auto const apart = sum_of<Counting>(stored.source, pieces, 5, tokens);
                REQUIRE(apart);
                CHECK(is_bitwise_equal(*apart, *alone));
            }
        }
    }
}

TEST_CASE("product_tree: steps are the rank's leaves, one behind another, and the additions between them") {
    auto const pieces = head_pieces(5, 80);
    TensorPlace const place{2, 1};
    // Leaves 3 and 4: two nodes, as 3 is a right child whose sister the other rank has.
    auto const sums = detail::product_sums(detail::TreePlan(5, 2, 1), pieces, place, 16);
    CHECK(sums.inputs == UnitRange{16, 176});
    CHECK(sums.sums == 2);
    REQUIRE(sums.steps.size() == 2);
    CHECK(sums.steps[0].inputs == UnitRange{16, 96});
    CHECK(sums.steps[1].inputs == UnitRange{96, 176});
    CHECK(sums.steps[1].to == 1);
    CHECK(sums.steps[1].is_product());
    // 240 inputs before them: half a block of 32.
    CHECK(detail::lead_inputs(WeightFormat::int8, pieces, place) == 16);
    CHECK(detail::lead_inputs(WeightFormat::bf16, pieces, place) == 0);
    CHECK(detail::lead_inputs(WeightFormat::int8, head_pieces(5, 96), place) == 0);
    CHECK(detail::lead_inputs(WeightFormat::int8, pieces, {8, 7}) == 0);
}
