// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/attention_options.hpp>
#include <shardwise/op/operation.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What an attention has beside its rows: columns, and what its heads have of their own.
struct AttentionColumns {
    std::int64_t queries = 0;
    std::int64_t keys = 0;
    std::int64_t values = 0;
    std::int64_t output = 0;
    /// Elements; none where there are no sinks.
    std::int64_t sinks = 0;
    std::int64_t slopes = 0;
};

/// Errors  shape_mismatch for columns that are not those of the heads; as check_attention_options
[[nodiscard]] inline Result<> check_attention_columns(AttentionColumns const& of, AttentionOptions const& options) {
    auto const& shape = options.shape;
    auto const per_head = score_numbers(shape);
    struct Pair {
        std::string_view reason;
        std::int64_t got;
        std::int64_t expected;
    };
    Pair const pairs[] = {{"the queries are not as wide as the heads", of.queries, shape.heads * shape.key_dim},
                          {"the keys are not as wide as the heads", of.keys, shape.kv_heads * shape.key_dim},
                          {"the values are not as wide as the heads", of.values, shape.kv_heads * shape.value_dim},
                          {"the output is not as wide as the heads", of.output, shape.heads * shape.value_dim},
                          {"each head needs a sink", of.sinks, of.sinks == 0 ? 0 : shape.heads},
                          {per_head > 1 ? "each head needs a bias for each distance" : "each head needs a slope",
                           of.slopes, of.slopes == 0 && per_head == 1 ? 0 : shape.heads * per_head}};
    for (auto const& [reason, got, expected] : pairs) {
        if (got != expected)
            return Error{ErrorCode::shape_mismatch}.in("attention").because(reason).got(got).expected(expected);
    }
    return check_attention_options(options);
}

/// What holds for any rows: of heads in whole groups.
///
/// Errors  as check_attention_columns; shape_mismatch for other heads
[[nodiscard]] inline Result<> check_attention(AttentionColumns const& of, AttentionOptions const& options) {
    auto const& shape = options.shape;
    if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
        return Error{ErrorCode::shape_mismatch}
            .in("attention")
            .because("the query heads are no multiple of the key-value heads")
            .got(shape.heads)
            .multiple_of(shape.kv_heads);
    }
    return check_attention_columns(of, options);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
