// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/attend_heads.hpp>

#include <doctest/doctest.h>

#include "bounded.hpp"

#include <numeric>
#include <utility>

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

/// A step of one sequence, whose pages lie in order.
struct OneSequence {
    std::vector<std::int32_t> page_list;
    Result<StepTable<Host>> table;

    OneSequence(HostContext& context, HostStream& stream, std::int64_t past, std::int64_t tokens)
        : page_list(index((past + tokens + page_rows - 1) / page_rows)),
          table(StepTable<Host>::create(context, {.tokens = tokens,
                                                  .groups = 1,
                                                  .pages = static_cast<std::int64_t>(page_list.size()),
                                                  .page_rows = page_rows})) {
        REQUIRE(table);
        std::iota(page_list.begin(), page_list.end(), 0);
        std::vector<std::int32_t> const ids(index(tokens), 0);
        std::span<std::int32_t const> const pages[] = {page_list};
        StepSequence const sequence{past, tokens, pages};
        REQUIRE(table->write({ids, {&sequence, 1}}, stream));
    }
    /// `values` end with their last page.
    [[nodiscard]] StepRows<float, Host> rows(Floats& values, std::int64_t keys, std::int64_t width) const {
        auto const whole = static_cast<std::int64_t>(page_list.size()) * page_rows;
        REQUIRE(whole >= keys);
        values.resize(index(whole * width));
        return {matrix(std::as_const(values), whole, width), {}, 0};
    }

    static constexpr std::int64_t page_rows = 16;
};

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
        OneSequence const step(context, stream, each.keys - each.queries, each.queries);
        auto const run = [&](std::int64_t ranks, std::int64_t rank) {
            auto const share = head_share(each.heads, each.kv_heads, head_pieces(each.heads, head_dim), ranks, rank);
            REQUIRE(share);
            auto const own_q = columns_of(q, each.queries, wide(share->query));
            auto own_k = columns_of(k, each.keys, wide(share->kv));
            auto own_v = columns_of(v, each.keys, wide(share->kv));
            Floats out(own_q.size());
            Floats workspace(index(attend_heads_workspace<Host>(options, *share, each.queries, 1, each.keys)));
            auto const q_width = share->query.size() * head_dim;
            auto const kv_width = share->kv.size() * head_dim;
            auto const done = attend_heads<Host, float>(
                matrix(own_q, each.queries, q_width), step.rows(own_k, each.keys, kv_width),
                step.rows(own_v, each.keys, kv_width), matrix(out, each.queries, q_width), *step.table, options, *share,
                stream, vector(workspace), vector(sinks).part(share->query.begin, share->query.size()));
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
    OneSequence const step(context, stream, 0, 1);
    Floats in(index(4 * head_dim));
    Floats out(index(4 * head_dim));
    auto const call = [&](std::int64_t q_width, std::int64_t kv_width) {
        auto const keys = step.rows(in, 1, kv_width);
        return attend_heads<Host, float>(matrix(std::as_const(in), 1, q_width), keys, keys, matrix(out, 1, q_width),
                                         *step.table, options, share, stream);
    };
    CHECK(call(2 * head_dim, head_dim));
    CHECK(call(4 * head_dim, head_dim).error().code() == ErrorCode::shape_mismatch);
    CHECK(call(2 * head_dim, 2 * head_dim).error().code() == ErrorCode::shape_mismatch);
}
