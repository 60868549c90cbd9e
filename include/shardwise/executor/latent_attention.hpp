// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/executor/held_weight_bytes.hpp>
#include <shardwise/kernels/attention_options.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/kernels/step_attention.hpp>
#include <shardwise/kernels/step_rows.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Rows that go through the latent at once on the host: few enough that the scratch stays small, many enough to share what is read
/// of weights.
inline constexpr std::int64_t latent_rows = 32;
template <ComputeBackend Backend>
[[nodiscard]] constexpr std::int64_t rows_at_once(std::int64_t tokens) {
    return HasHostMemory<Backend> ? std::min(tokens, latent_rows) : tokens;
}

/// Attention in the latent: one key-value head, whose values are the first part of its keys.
[[nodiscard]] constexpr AttentionShape in_latent(AttentionShape const& shape, std::int64_t heads) {
    auto out = shape;
    out.heads = heads;
    out.kv_heads = 1;
    out.key_dim = shape.latent;
    out.value_dim = shape.latent - shape.rotary;
    return out;
}
/// The format of a weight that is turned round: its own where that has plain elements.
[[nodiscard]] constexpr WeightFormat turned_format(WeightFormat format) {
    return traits(format).scales == ScalePlace::none ? format : WeightFormat::f32;
}

}  // namespace detail

/// Floats that `LatentHeads::attend` needs beside its tensors with so many heads of its own, for a step of so many tokens and
/// sequences, `context` tokens long at most. `shape` is the whole model's, `activations` what the tensors are in.
template <ComputeBackend Backend>
[[nodiscard]] std::int64_t latent_workspace(AttentionShape const& shape, std::int64_t heads, std::int64_t tokens,
                                            std::int64_t sequences, std::int64_t context,
                                            Dtype activations = Dtype::f32) {
    auto const rows = detail::rows_at_once<Backend>(tokens);
    AttentionOptions options;
    options.shape = detail::in_latent(shape, heads);
    return floats_of(rows * heads * options.shape.key_dim, activations) +
           floats_of(rows * heads * options.shape.value_dim, activations) +
           step_attention_workspace<Backend>(options, rows, sequences, context);
}

/// What LatentHeads holds of a weight of this format for so many heads.
///
/// Errors  as held_weight_bytes
template <ComputeBackend Backend>
[[nodiscard]] Result<Bytes> latent_weight_bytes(WeightFormat format, AttentionShape const& shape, std::int64_t heads,
                                                std::int64_t group = 0) {
    auto const latent = shape.latent - shape.rotary;
    auto const into =
        held_weight_bytes<Backend>(detail::turned_format(format), latent, shape.key_dim - shape.rotary, group);
    if (!into) return into.error();
    auto const out_of = held_weight_bytes<Backend>(format, shape.value_dim, latent, group);
    if (!out_of) return out_of.error();
    auto const head = checked_add(into->count(), out_of->count());
    auto const all = head ? checked_multiply(*head, heads) : head;
    if (!all) return Error{ErrorCode::size_overflow}.in("weight").got(heads);
    return Bytes{*all};
}

/// A rank's heads of multi-head latent attention. Each head's queries are taken into the latent before the attention,
/// and its result out of it after: the cache holds the latent alone, one key-value head that all heads share, and is
/// never expanded.
///
/// Source  DeepSeek-V2 (arXiv 2405.04434), section 2.1.2
template <ComputeBackend Backend>
class LatentHeads {
public:
    using Stream = typename Backend::Stream;

    /// Holds the heads `own` of the weight that expands the latent, whose rows are each head's keys, then its values;
    /// `source` is not needed afterwards.
    ///
    /// Shapes  source [heads * (key_dim - rotary + value_dim), latent - rotary]
    /// Errors  shape_mismatch; out_of_memory
    [[nodiscard]] static Result<LatentHeads> create(typename Backend::Context& context, WeightSource const& source,
                                                    AttentionShape const& shape, UnitRange own) {
        LatentHeads layer;
        layer.shape_ = shape;
        auto const key = layer.plain_key();
        auto const rows = key + shape.value_dim;
        if (source.outputs != shape.heads * rows || source.inputs != layer.latent_width()) {
            return Error{ErrorCode::shape_mismatch}
                .in("latent_heads")
                .because("the weight does not expand a latent into these heads")
                .got(source.outputs)
                .expected(shape.heads * rows);
        }
        for (auto head = own.begin; head < own.end; ++head) {
            auto const turned = turn(source, {head * rows, head * rows + key});
            auto into = Backend::hold_weight(context, turned.source);
            if (!into) return into.error();
            UnitRange const values[] = {{head * rows + key, (head + 1) * rows}};
            auto const slice = slice_weight(source, values, {0, source.inputs});
            if (!slice) return slice.error();
            auto out_of = Backend::hold_weight(context, slice->source());
            if (!out_of) return out_of.error();
            layer.heads_.push_back({std::move(*into), std::move(*out_of)});
        }
        return Result<LatentHeads>(std::move(layer));
    }

    /// Calls visit(weight) for the weights of its heads, in an order of their own.
    template <class Visit>
    void for_each_weight(Visit const& visit) {
        for (auto& head : heads_) {
            visit(head.into);
            visit(head.out_of);
        }
    }

    /// Attends in all sequences of a step; the latents of the new tokens are in the cache.
    ///
    /// Shapes  q [tokens, own heads * key_dim]; latents as StepRows says, of one head, what rotates after the rest;
    ///         out [tokens, own heads * value_dim]; workspace [latent_workspace(...)]
    /// Memory  allocates nothing; nothing overlaps; the table stays alive until it is done
    /// Order   on `stream`
    /// Errors  shape_mismatch
    template <CacheElement Cache, ActivationElement T = float>
    [[nodiscard]] Result<> attend(TensorView<std::type_identity_t<T> const, 2, Backend> q,
                                  StepRows<Cache, Backend> const& latents, TensorView<T, 2, Backend> out,
                                  StepTable<Backend> const& table, float scale, TensorView<float, 1, Backend> workspace,
                                  Stream& stream) const {
        if (heads_.empty()) return {};
        if (auto const checked = check<T>(q, out, table, workspace); !checked) return checked;
        if (auto const checked = check_cached(latents, q.extent(0), table, options_for(scale)); !checked)
            return checked;
        return attend_bound<Cache, T>(q, latents, out, table, scale, workspace, stream);
    }
    /// `attend` of what is known to fit: columns that check_columns has taken, rows and a workspace of the step.
    template <CacheElement Cache, ActivationElement T = float>
    [[nodiscard]] Result<> attend_bound(TensorView<std::type_identity_t<T> const, 2, Backend> q,
                                        StepRows<Cache, Backend> const& latents, TensorView<T, 2, Backend> out,
                                        StepTable<Backend> const& table, float scale,
                                        TensorView<float, 1, Backend> workspace, Stream& stream) const {
        if (heads_.empty()) return {};
        auto const width = latent_width();
        auto const at_once = detail::rows_at_once<Backend>(q.extent(0));
        auto const queries_size = queries_floats<T>(at_once);
        auto const taken = taken_floats<T>(at_once);
        auto const options = options_for(scale);
        StepRows<Cache, Backend> const values{latents.memory.columns(0, width), latents.scales, latents.group};
        auto const rest = workspace.part(taken, workspace.elements() - taken);
        for (std::int64_t first = 0; first < q.extent(0); first += at_once) {
            auto const rows = std::min(at_once, q.extent(0) - first);
            Matrix<T> const queries(reinterpret_cast<T*>(workspace.data()), {rows, own() * shape_.latent});
            Matrix<T> const sums(reinterpret_cast<T*>(workspace.data() + queries_size), {rows, own() * width});
            if (auto const done = take_in<T>(q.rows(first, rows), queries, stream); !done) return done;
            auto const attended =
                attend_rows<Cache, T>(queries, latents, values, sums, table, options, first, rest, stream);
            if (!attended) return attended;
            if (auto const done = take_out<T>(sums, out.rows(first, rows), stream); !done) return done;
        }
        return {};
    }

    /// Whether queries and output are as wide as a rank's heads.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] static Result<> check_columns(AttentionShape const& shape, std::int64_t heads, std::int64_t queries,
                                                std::int64_t output) {
        for (auto const& [columns, width] :
             {std::pair(queries, heads * shape.key_dim), std::pair(output, heads * shape.value_dim)}) {
            if (columns == width) continue;
            return Error{ErrorCode::shape_mismatch}
                .in("latent_heads")
                .because("queries or output are not as wide as the heads")
                .got(columns)
                .expected(width);
        }
        return {};
    }

private:
    template <class T>
    using Matrix = TensorView<T, 2, Backend>;
    struct Head {
        /// [latent without what turns, keys without it]
        typename Backend::Weight into;
        /// [values, latent without what turns]
        typename Backend::Weight out_of;
    };
    struct Turned {
        WeightSource source;
        std::vector<std::byte> data;
    };

    LatentHeads() = default;

    [[nodiscard]] std::int64_t own() const { return static_cast<std::int64_t>(heads_.size()); }
    [[nodiscard]] std::int64_t plain_key() const { return shape_.key_dim - shape_.rotary; }
    [[nodiscard]] std::int64_t latent_width() const { return shape_.latent - shape_.rotary; }

    [[nodiscard]] AttentionOptions options_for(float scale) const {
        AttentionOptions options;
        options.shape = detail::in_latent(shape_, own());
        options.scale = scale;
        return options;
    }
    /// What queries in the latent take of the workspace, and with them sums of latents, for so many rows.
    template <class T>
    [[nodiscard]] std::int64_t queries_floats(std::int64_t rows) const {
        return floats_of(rows * own() * shape_.latent, dtype_of<T>);
    }
    template <class T>
    [[nodiscard]] std::int64_t taken_floats(std::int64_t rows) const {
        return queries_floats<T>(rows) + floats_of(rows * own() * latent_width(), dtype_of<T>);
    }

    template <class T>
    [[nodiscard]] Result<> check(Matrix<T const> const& q, Matrix<T> const& out, StepTable<Backend> const& table,
                                 TensorView<float, 1, Backend> const& workspace) const {
        if (auto const known = check_views("latent_heads", q, out, workspace); !known) return known;
        auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("latent_heads"); };
        if (auto const fits = check_columns(shape_, own(), q.extent(1), out.extent(1)); !fits) return fits;
        for (auto const rows : {q.extent(0), out.extent(0)}) {
            if (rows == table.tokens()) continue;
            return refused()
                .because("queries or output do not have the step's rows")
                .got(rows)
                .expected(table.tokens());
        }
        auto const needed = taken_floats<T>(detail::rows_at_once<Backend>(q.extent(0)));
        if (workspace.elements() < needed)
            return refused().because("the workspace is too small").got(workspace.elements()).at_least(needed);
        return {};
    }

    template <CacheElement Cache>
    [[nodiscard]] static Result<> check_cached(StepRows<Cache, Backend> const& latents, std::int64_t rows,
                                               StepTable<Backend> const& table, AttentionOptions const& options) {
        if (auto const known = check_views("latent_heads", latents.memory, latents.scales); !known) return known;
        if (latents.memory.extent(1) != options.shape.key_dim) {
            return Error{ErrorCode::shape_mismatch}
                .in("latent_heads")
                .because("the cached rows are not as wide as a latent")
                .got(latents.memory.extent(1))
                .expected(options.shape.key_dim);
        }
        if (auto const checked = detail::check_step_rows(latents, options.shape, rows, table); !checked) return checked;
        return check_attention_options(options);
    }

    /// The step's rows from `first` on.
    template <CacheElement Cache, class T>
    [[nodiscard]] static Result<> attend_rows(Matrix<T const> queries, StepRows<Cache, Backend> const& latents,
                                              StepRows<Cache, Backend> const& values, Matrix<T> sums,
                                              StepTable<Backend> const& table, AttentionOptions const& options,
                                              std::int64_t first, TensorView<float, 1, Backend> workspace,
                                              Stream& stream) {
        if constexpr (HasHostMemory<Backend>) {
            return detail::attend_step_rows<Cache>(queries, latents, values, sums, table, options, first, stream,
                                                   workspace, {}, {});
        } else {
            return step_attention<Cache>(queries, latents, values, sums, table, options, stream, workspace);
        }
    }

    /// Each head's queries into the latent; what turns goes as it is.
    template <class T>
    [[nodiscard]] Result<> take_in(Matrix<T const> q, Matrix<T> queries, Stream& stream) const {
        auto const width = latent_width();
        for (std::int64_t head = 0; head < own(); ++head) {
            auto const from = q.columns(head * shape_.key_dim, shape_.key_dim);
            auto const to = queries.columns(head * shape_.latent, shape_.latent);
            auto const& held = heads_[static_cast<std::size_t>(head)];
            if (auto const done =
                    Backend::multiply(from.columns(0, plain_key()), held.into, to.columns(0, width), stream);
                !done)
                return done;
            auto const turning = from.columns(plain_key(), shape_.rotary);
            if (auto const done = copy_rows<T>(turning, to.columns(width, shape_.rotary), stream); !done) return done;
        }
        return {};
    }
    /// Each head's sum of latents out of it.
    template <class T>
    [[nodiscard]] Result<> take_out(Matrix<T> sums, Matrix<T> out, Stream& stream) const {
        auto const width = latent_width();
        for (std::int64_t head = 0; head < own(); ++head) {
            auto const done =
                Backend::multiply(sums.columns(head * width, width), heads_[static_cast<std::size_t>(head)].out_of,
                                  out.columns(head * shape_.value_dim, shape_.value_dim), stream);
            if (!done) return done;
        }
        return {};
    }

    /// Some rows of a weight, turned round: in its format where that has plain elements, else in fp32.
    [[nodiscard]] static Turned turn(WeightSource const& source, UnitRange rows) {
        auto const count = rows.size();
        auto const format = detail::turned_format(source.format);
        bool const is_plain = format == source.format;
        auto const size = static_cast<std::size_t>(traits(format).block_bytes);
        Turned out;
        out.data.resize(static_cast<std::size_t>(count * source.inputs) * size);
        std::vector<float> row(static_cast<std::size_t>(source.inputs));
        for (std::int64_t i = 0; i < count; ++i) {
            auto const at = static_cast<std::size_t>((rows.begin + i) * source.inputs) * size;
            auto const* from = is_plain ? source.data.data() + at : reinterpret_cast<std::byte const*>(row.data());
            if (!is_plain) detail::decode_source(source, rows.begin + i, 0, source.inputs, row.data());
            for (std::int64_t j = 0; j < source.inputs; ++j)
                std::memcpy(out.data.data() + static_cast<std::size_t>(j * count + i) * size,
                            from + static_cast<std::size_t>(j) * size, size);
        }
        out.source = {.format = format, .outputs = source.inputs, .inputs = count, .data = out.data, .scales = {}};
        return out;
    }

    AttentionShape shape_;
    std::vector<Head> heads_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
