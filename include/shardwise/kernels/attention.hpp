#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/attention_part.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/op/operation.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// Everything about an attention but its tensors.
struct AttentionOptions {
    /// Heads, key and value widths, causality and window. `latent` and `is_cross` play no part here.
    AttentionShape shape{};
    /// Multiplies scores; 0: 1 / sqrt(key_dim).
    float scale = 0.0F;
    /// Scores become cap * tanh(score / cap); 0: they do not (gemma2).
    float soft_cap = 0.0F;
    /// The position of the first query among the keys: keys before it are its past. Prefill from the start: 0.
    std::int64_t first_query = 0;
};

/// The floats that `attention` needs beside its tensors: room for the parts of a context that few queries share.
[[nodiscard]] constexpr std::int64_t attention_workspace(AttentionOptions const& options, std::int64_t queries,
                                                         std::int64_t keys) {
    auto const parts = ceil_divide(keys, detail::attention_part_keys);
    return queries * options.shape.heads * parts * (options.shape.value_dim + 2);
}

/// out = softmax(q k^T * scale) v for one sequence, never holding more scores than one part of the context has.
///
/// Each head's context is cut into parts of 256 keys, whatever the number of threads, and the parts are merged in order: the
/// bits of a query's result depend on its own row and the keys it sees, not on who computes beside it.
///
/// Shapes  q [queries, heads * key_dim], k [keys, kv_heads * key_dim], v [keys, kv_heads * value_dim],
///         out [queries, heads * value_dim]; sinks [heads] or empty: a score without a value (gpt_oss); slopes [heads] or
///         empty: ALiBi's, times the distance; workspace [attention_workspace(...)] or empty: then queries and heads alone are
///         dealt to threads
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Dao et al., FlashAttention, 2022 (online softmax); Press et al., ALiBi, 2021
template <ActivationElement T, ActivationElement Cache>
[[nodiscard]] Result<> attention(TensorView<T const, 2, Host> q, TensorView<Cache const, 2, Host> k,
                                 TensorView<Cache const, 2, Host> v, TensorView<T, 2, Host> out,
                                 AttentionOptions const& options, HostStream& stream,
                                 TensorView<float, 1, Host> workspace = {}, TensorView<float const, 1, Host> sinks = {},
                                 TensorView<float const, 1, Host> slopes = {}) {
    auto const& shape = options.shape;
    auto const queries = q.extent(0);
    auto const keys = k.extent(0);
    Error error{ErrorCode::shape_mismatch};
    error.in("attention");
    auto const differs = [&](std::string_view reason, std::int64_t got, std::int64_t expected) {
        return error.because(reason).got(got).expected(expected);
    };
    if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
        return differs("the query heads are no multiple of the key-value heads", shape.heads, shape.kv_heads);
    }
    if (q.extent(1) != shape.heads * shape.key_dim) {
        return differs("the queries are not as wide as the heads", q.extent(1), shape.heads * shape.key_dim);
    }
    if (k.extent(1) != shape.kv_heads * shape.key_dim) {
        return differs("the keys are not as wide as the heads", k.extent(1), shape.kv_heads * shape.key_dim);
    }
    if (v.extent(1) != shape.kv_heads * shape.value_dim) {
        return differs("the values are not as wide as the heads", v.extent(1), shape.kv_heads * shape.value_dim);
    }
    if (v.extent(0) != keys) return differs("there are not as many values as keys", v.extent(0), keys);
    if (out.extent(0) != queries || out.extent(1) != shape.heads * shape.value_dim) {
        return differs("the output has another shape than queries and heads", out.elements(),
                       queries * shape.heads * shape.value_dim);
    }
    if (!sinks.empty() && sinks.elements() != shape.heads)
        return differs("each head needs a sink", sinks.elements(), shape.heads);
    if (!slopes.empty() && slopes.elements() != shape.heads)
        return differs("each head needs a slope", slopes.elements(), shape.heads);
    auto const needed = attention_workspace(options, queries, keys);
    if (!workspace.empty() && workspace.elements() < needed)
        return differs("the workspace is too small", workspace.elements(), needed);

    detail::AttentionHeads<T, Cache> const heads{q,
                                                 k,
                                                 v,
                                                 options.shape,
                                                 options.scale,
                                                 options.soft_cap,
                                                 options.first_query,
                                                 slopes.empty() ? nullptr : slopes.data()};
    auto const finish = [=](std::int64_t query, std::int64_t head, detail::AttentionPart& whole) {
        if (!sinks.empty()) whole.add_sink(sinks.data()[head]);
        whole.finish(out.row(query) + head * shape.value_dim);
    };
    auto const parts = ceil_divide(keys, detail::attention_part_keys);
    if (workspace.empty() || parts < 2) {
        Host::launch(
            queries * shape.heads,
            [=](std::int64_t begin, std::int64_t end) {
                List<float> sums(static_cast<std::size_t>(2 * shape.value_dim));
                for (auto item = begin; item < end; ++item) {
                    auto const query = item / shape.heads;
                    auto const head = item % shape.heads;
                    detail::AttentionPart whole(sums.data(), shape.value_dim);
                    for (std::int64_t part = 0; part < parts; ++part) {
                        detail::AttentionPart piece(sums.data() + shape.value_dim, shape.value_dim);
                        heads.attend(query, head, part, piece);
                        whole.merge(piece);
                    }
                    finish(query, head, whole);
                }
            },
            stream);
        return {};
    }
    auto const stride = shape.value_dim + 2;
    Host::launch(
        queries * shape.heads * parts,
        [=](std::int64_t begin, std::int64_t end) {
            for (auto item = begin; item < end; ++item) {
                auto* const place = workspace.data() + item * stride;
                detail::AttentionPart piece(place + 2, shape.value_dim);
                heads.attend(item / parts / shape.heads, item / parts % shape.heads, item % parts, piece);
                place[0] = piece.largest;
                place[1] = piece.sum;
            }
        },
        stream);
    Host::launch(
        queries * shape.heads,
        [=](std::int64_t begin, std::int64_t end) {
            List<float> sums(static_cast<std::size_t>(shape.value_dim));
            for (auto item = begin; item < end; ++item) {
                detail::AttentionPart whole(sums.data(), shape.value_dim);
                for (std::int64_t part = 0; part < parts; ++part) {
                    auto* const place = workspace.data() + (item * parts + part) * stride;
                    whole.merge({place + 2, shape.value_dim, place[0], place[1]});
                }
                finish(item / shape.heads, item % shape.heads, whole);
            }
        },
        stream);
    return {};
}

}  // namespace shardwise::inline v0_2_0
