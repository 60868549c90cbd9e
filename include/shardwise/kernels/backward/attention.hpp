// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/detail/check_gradients.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Floats that attention_backward needs beside its tensors: a number for each query and head, and where query heads share keys the
/// gradients of keys and values of each query head.
[[nodiscard]] constexpr std::int64_t attention_backward_workspace(AttentionShape const& shape, std::int64_t queries,
                                                                  std::int64_t keys) {
    auto const each = shape.heads > shape.kv_heads ? keys * (shape.key_dim + shape.value_dim) : 0;
    return shape.heads * (queries + each);
}

/// What the backward pass of an attention reads, the first five as the forward pass had and left them.
///
/// Shapes  q [queries, heads * key_dim], k [keys, kv_heads * key_dim], v [keys, kv_heads * value_dim], out and out_gradient
///         [queries, heads * value_dim], log_sums [queries, heads], slopes [heads] or empty (ALiBi's)
struct AttentionForward {
    TensorView<float const, 2, Host> q;
    TensorView<float const, 2, Host> k;
    TensorView<float const, 2, Host> v;
    TensorView<float const, 2, Host> out;
    TensorView<float const, 2, Host> log_sums;
    TensorView<float const, 2, Host> out_gradient;
    TensorView<float const, 1, Host> slopes{};
};

/// What it makes, shaped as q, k and v; it adds to what is there where `is_added`.
struct AttentionGradients {
    TensorView<float, 2, Host> q;
    TensorView<float, 2, Host> k;
    TensorView<float, 2, Host> v;
    bool is_added = false;
};

namespace detail {

/// One backward pass of the host.
struct HostAttentionBackward {
    using Head = void (*)(AttentionBackwardTask const&, std::int64_t, HeadGradients const&,
                          AttentionBackwardScratch const&);
    using Dot = float (*)(float const*, float const*, std::int64_t);

    AttentionBackwardTask task;
    TensorView<float const, 2, Host> out;
    AttentionGradients to;
    float* workspace;
    Head head_kernel;
    Dot dot;

    [[nodiscard]] std::int64_t group() const { return task.forward.shape.heads / task.forward.shape.kv_heads; }
    /// Where a query head's own gradients of keys, or after them of values, begin.
    [[nodiscard]] float* shared(std::int64_t head) const {
        auto const& shape = task.forward.shape;
        auto const keys = task.forward.k.count();
        return workspace + shape.heads * task.forward.q.extent(0) + head * keys * (shape.key_dim + shape.value_dim);
    }
    void run_heads(std::int64_t begin, std::int64_t end) const {
        auto const& shape = task.forward.shape;
        auto const queries = task.forward.q.extent(0);
        auto const keys = task.forward.k.count();
        List<float> memory(static_cast<std::size_t>(AttentionBackwardScratch::floats(shape)));
        AttentionBackwardScratch const scratch(memory.data(), shape);
        for (auto head = begin; head < end; ++head) {
            auto const column = head * shape.value_dim;
            for (std::int64_t query = 0; query < queries; ++query) {
                workspace[head * queries + query] =
                    dot(out.row(query) + column, task.out_gradient.row(query) + column, shape.value_dim);
                if (!to.is_added) std::fill_n(to.q.row(query) + head * shape.key_dim, shape.key_dim, 0.0F);
            }
            HeadGradients own;
            if (group() == 1) {
                own = {to.k.data() + head * shape.key_dim, to.v.data() + column, to.k.stride(0), to.v.stride(0),
                       to.is_added};
            } else {
                own = {shared(head), shared(head) + keys * shape.key_dim, shape.key_dim, shape.value_dim, false};
            }
            head_kernel(task, head, own, scratch);
        }
    }
    /// The sums over the query heads of each key-value head, for some keys: of neighbours, of neighbours of those, and so on.
    void sum_groups(std::int64_t begin, std::int64_t end) const {
        auto const& shape = task.forward.shape;
        auto const keys = task.forward.k.count();
        for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
            auto const first = kv_head * group();
            auto const sum = [&](std::int64_t at, std::int64_t width, TensorView<float, 2, Host> const& result) {
                for (std::int64_t step = 1; step < group(); step *= 2) {
                    for (std::int64_t head = 0; head + step < group(); head += 2 * step) {
                        auto* const left = shared(first + head) + at;
                        auto const* const right = shared(first + head + step) + at;
                        for (auto i = begin * width; i < end * width; ++i) left[i] += right[i];
                    }
                }
                for (auto key = begin; key < end; ++key) {
                    auto const* const from = shared(first) + at + key * width;
                    auto* const target = result.row(key) + kv_head * width;
                    for (std::int64_t i = 0; i < width; ++i) target[i] = to.is_added ? target[i] + from[i] : from[i];
                }
            };
            sum(0, shape.key_dim, to.k);
            sum(keys * shape.key_dim, shape.value_dim, to.v);
        }
    }
};

[[nodiscard]] inline Result<> check_attention_backward(std::string_view kernel, AttentionForward const& in,
                                                       AttentionGradients const& to, AttentionOptions const& options) {
    if (auto const known =
            check_views(kernel, in.q, in.k, in.v, in.out, in.log_sums, in.out_gradient, in.slopes, to.q, to.k, to.v);
        !known)
        return known;
    auto const& shape = options.shape;
    if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
        return Error{ErrorCode::shape_mismatch}
            .in(kernel)
            .because("the query heads are no multiple of the key-value heads")
            .got(shape.heads)
            .multiple_of(shape.kv_heads);
    }
    if (shape.bias_reach > 0 || shape.chunk > 0 || shape.has_rounded_slopes) {
        return Error{ErrorCode::unsupported}
            .in(kernel)
            .at(shape.bias_reach > 0 ? "bias_reach" : shape.chunk > 0 ? "chunk" : "has_rounded_slopes")
            .because("changes scores in a way that has no gradient here");
    }
    auto const queries = in.q.extent(0);
    auto const keys = in.k.extent(0);
    auto const q_width = shape.heads * shape.key_dim;
    auto const k_width = shape.kv_heads * shape.key_dim;
    auto const v_width = shape.kv_heads * shape.value_dim;
    auto const out_width = shape.heads * shape.value_dim;
    for (auto const& checked :
         {check_shape(kernel, "q", in.q, queries, q_width), check_shape(kernel, "k", in.k, keys, k_width),
          check_shape(kernel, "v", in.v, keys, v_width), check_shape(kernel, "out", in.out, queries, out_width),
          check_shape(kernel, "log_sums", in.log_sums, queries, shape.heads),
          check_shape(kernel, "out_gradient", in.out_gradient, queries, out_width),
          check_shape(kernel, "q's gradient", to.q, queries, q_width),
          check_shape(kernel, "k's gradient", to.k, keys, k_width),
          check_shape(kernel, "v's gradient", to.v, keys, v_width),
          check_columns(kernel, "slopes", in.slopes, shape.heads, true)}) {
        if (!checked) return checked;
    }
    auto const is_size = [](float value) { return value >= 0.0F && value <= std::numeric_limits<float>::max(); };
    if (!is_size(options.scale) || !is_size(options.soft_cap)) {
        return Error{ErrorCode::invalid_argument}
            .in(kernel)
            .at(is_size(options.scale) ? "soft_cap" : "scale")
            .because("must be at least 0, and finite");
    }
    auto const last_first = shape.is_causal ? keys - queries : keys;
    if (options.first_query && (*options.first_query < 0 || *options.first_query > last_first)) {
        return Error{ErrorCode::invalid_argument}
            .in(kernel)
            .at("first_query")
            .because("is not a position at which the queries are keys")
            .got(*options.first_query)
            .between(0, last_first);
    }
    if (!options.first_query && shape.is_causal && last_first < 0) {
        return Error{ErrorCode::shape_mismatch}
            .in(kernel)
            .because("causal queries are some of the keys")
            .got(keys)
            .at_least(queries);
    }
    return {};
}

}  // namespace detail

/// The gradients of out = softmax(q k^T * scale) v for one sequence, from the forward pass's log-sums: weights are made again in
/// blocks of 64 queries by 64 keys and never kept. Causality, windows, grouped heads, scale, soft cap and ALiBi's slopes as
/// `attention` has them; it has no gradients of sinks nor of biases by distance.
///
/// The gradient of a query is summed over the keys in their order, those of keys and values over the queries in their order, for each
/// query head; then over the query heads of a group by halves (neighbours, neighbours of those, ...), so that ranks which have
/// some of a group's heads can share the sum. Threads take heads, and cut no sum.
///
/// Shapes  see AttentionForward and AttentionGradients; workspace [attention_backward_workspace(...)]
/// Memory  each thread allocates its scratch, for blocks of 64: nothing but the workspace grows with queries or keys; gradients
///         overlap nothing else
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for biases by distance; invalid_argument as attention; what the stream says of its
///         instruction set
/// Source  Dao et al., FlashAttention, 2022, appendix B.4 (out * out_gradient instead of the weights' own sum)
[[nodiscard]] inline Result<> attention_backward(AttentionForward const& in, AttentionGradients const& to,
                                                 AttentionOptions const& options, TensorView<float, 1, Host> workspace,
                                                 HostStream& stream) {
    constexpr std::string_view name = "attention_backward";
    if (auto const checked = detail::check_attention_backward(name, in, to, options); !checked) return checked;
    if (auto const known = check_views(name, workspace); !known) return known;
    auto const& shape = options.shape;
    auto const queries = in.q.extent(0);
    auto const keys = in.k.extent(0);
    auto const needed = attention_backward_workspace(shape, queries, keys);
    if (workspace.elements() < needed) return detail::small_workspace(name, workspace.elements(), needed);
    if (!stream.isa()) return stream.isa().error();
    auto const first_query =
        options.first_query.value_or(shape.is_causal ? keys - queries : std::max<std::int64_t>(keys - queries, 0));
    auto const scale = options.scale > 0.0F ? options.scale : 1.0F / std::sqrt(static_cast<float>(shape.key_dim));
    detail::HostAttentionBackward const host{
        {{in.q, CachedRows<float, Host>(in.k), CachedRows<float, Host>(in.v), shape, options.scale, options.soft_cap,
          first_query, in.slopes.empty() ? nullptr : in.slopes.data()},
         in.out_gradient,
         in.log_sums,
         workspace.data(),
         to.q,
         scale},
        in.out,
        to,
        workspace.data(),
        detail::choose_kernel<detail::HostAttentionBackward::Head>(*stream.isa(),
                                                                   SHARDWISE_KERNEL_LEVELS(attention_backward_head)),
        detail::choose_kernel<detail::HostAttentionBackward::Dot>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(dot_rows))};
    if (shape.heads == 0 || (queries == 0 && keys == 0)) return {};
    Host::launch(
        shape.heads, [=](std::int64_t begin, std::int64_t end) { host.run_heads(begin, end); }, stream);
    if (host.group() > 1) {
        Host::launch(
            keys, [=](std::int64_t begin, std::int64_t end) { host.sum_groups(begin, end); }, stream,
            detail::row_grain(shape.heads * (shape.key_dim + shape.value_dim)));
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
