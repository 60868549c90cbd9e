// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/attend_heads.hpp>

#include <doctest/doctest.h>

#include "bounded.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t head_dim = 8;

/// Columns of a matrix, without gaps.
Floats columns_of(Floats const& values, std::int64_t rows, UnitRange columns) {
    auto const width = static_cast<std::int64_t>(values.size()) / rows;
    Floats out;
    for (std::int64_t row = 0; row < rows; ++row)
        out.insert(out.end(), values.begin() + row * width + columns.begin, values.begin() + row * width + columns.end);
    return out;
}

UnitRange wide(UnitRange heads) {
    return {heads.begin * head_dim, heads.end * head_dim};
}

}  // namespace

TEST_CASE(
    "attend_heads: any cut of the heads gives each head the bits that it has in the whole, also of long contexts") {
    struct Case {
        std::int64_t heads;
        std::int64_t kv_heads;
        std::int64_t queries;
        std::int64_t keys;
        int threads;
    };
    // Contexts of several parts, split over threads or not; one query as in decoding, or several.
    for (auto const& each :
         {Case{9, 3, 1, 600, 1}, Case{9, 3, 5, 300, 2}, Case{8, 1, 3, 20, 1}, Case{4, 4, 1, 513, 2}}) {
        auto const q = random_floats(each.queries * each.heads * head_dim, 1);
        auto const k = random_floats(each.keys * each.kv_heads * head_dim, 2);
        auto const v = random_floats(each.keys * each.kv_heads * head_dim, 3);
        auto const sinks = random_floats(each.heads, 4);
        HostContext context({.threads = each.threads});
        auto stream = context.make_stream();
        AttentionOptions options;
        options.shape = {.heads = each.heads, .kv_heads = each.kv_heads, .key_dim = head_dim, .value_dim = head_dim};
        options.first_query = each.keys - each.queries;
        auto const run = [&](std::int64_t ranks, std::int64_t rank) {
            auto const share = head_share(each.heads, each.kv_heads, head_pieces(each.heads, head_dim), ranks, rank);
            REQUIRE(share);
            auto const own_q = columns_of(q, each.queries, wide(share->query));
            auto const own_k = columns_of(k, each.keys, wide(share->kv));
            auto const own_v = columns_of(v, each.keys, wide(share->kv));
            Floats out(own_q.size());
            Floats workspace(index(attend_heads_workspace(options, *share, each.queries, each.keys)));
            auto const q_width = share->query.size() * head_dim;
            auto const kv_width = share->kv.size() * head_dim;
            auto const done = attend_heads<Host, float>(
                matrix(own_q, each.queries, q_width), matrix(own_k, each.keys, kv_width),
                matrix(own_v, each.keys, kv_width), matrix(out, each.queries, q_width), options, *share, stream,
                vector(workspace), vector(sinks).part(share->query.begin, share->query.size()));
            REQUIRE(done);
            REQUIRE(finish(stream));
            return out;
        };
        auto const whole = run(1, 0);
        for (std::int64_t const ranks : {2, 4}) {
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                CAPTURE(each.heads);
                CAPTURE(each.keys);
                CAPTURE(ranks);
                CAPTURE(rank);
                auto const expected = columns_of(whole, each.queries, wide(split_units(each.heads, ranks, rank)));
                CHECK(is_bitwise_equal(run(ranks, rank), expected));
            }
        }
    }
}

TEST_CASE("attend_heads: tensors that are not as wide as the rank's heads are refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    AttentionOptions options;
    options.shape = {.heads = 4, .kv_heads = 2, .key_dim = head_dim, .value_dim = head_dim};
    auto const share = *head_share(4, 2, head_pieces(4, head_dim), 2, 1);
    Floats const in(index(4 * head_dim));
    Floats out(index(4 * head_dim));
    auto const call = [&](std::int64_t q_width, std::int64_t kv_width) {
        return attend_heads<Host, float>(matrix(in, 1, q_width), matrix(in, 1, kv_width), matrix(in, 1, kv_width),
                                         matrix(out, 1, q_width), options, share, stream);
    };
    CHECK(call(2 * head_dim, head_dim));
    CHECK(call(4 * head_dim, head_dim).error().code() == ErrorCode::shape_mismatch);
    CHECK(call(2 * head_dim, 2 * head_dim).error().code() == ErrorCode::shape_mismatch);
}
