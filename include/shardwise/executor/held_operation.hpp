// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/backend/host/mapped_pages.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/latent_attention.hpp>
#include <shardwise/executor/load_experts.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/op/alibi_slopes.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/row_linear.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A norm's scale and shift; a norm without parameters has neither.
template <ComputeBackend Backend>
struct HeldNorm {
    Buffer<float, Backend> weight;
    Buffer<float, Backend> bias;
};

/// This rank's rows of a table, in the file's format; rows are decoded as they are looked up.
template <ComputeBackend Backend>
struct HeldTable {
    Buffer<std::byte, Backend> data;
    WeightSource source;
    UnitRange rows;
};

/// A vector that is no norm's: the sinks of an attention's own heads, the correction of a router.
template <ComputeBackend Backend>
struct HeldVector {
    Buffer<float, Backend> values;
};

/// What a rank holds of one operation's parameters.
template <ComputeBackend Backend, ReductionPolicy Policy>
using HeldOperation =
    std::variant<std::monostate, HeldNorm<Backend>, HeldTable<Backend>, HeldVector<Backend>, ColumnLinear<Backend>,
                 RowLinear<Backend, Policy>, LatentHeads<Backend>, ExpertColumns<Backend>, ExpertRows<Backend, Policy>>;

namespace detail {

/// Loads the operations of one block for one rank.
template <ComputeBackend Backend, ReductionPolicy Policy>
class OperationLoader {
public:
    using Held = HeldOperation<Backend, Policy>;

    /// `prefix` is the block's module, which parameters' names follow; `experts` the rank's share of the experts.
    OperationLoader(ParameterLoader<Backend>& loader, Model const& model, std::string prefix, TensorPlace place,
                    TensorPlace experts = {})
        : loader_(loader),
          context_(loader.context()),
          parameters_(loader.parameters()),
          model_(model),
          prefix_(std::move(prefix)),
          place_(place),
          experts_(loader, prefix_, place, experts) {}

    /// What the inputs of a product's weight are sharded by.
    [[nodiscard]] Result<WeightGrain> grain_of(Operation const& op) const {
        if (op.kind == OpKind::experts) return experts_.grain_of(op);
        auto const stored = find(op.parameters[0]);
        if (!stored) return stored.error();
        auto const held = loader_.format_of(*stored);
        if (!held) return held.error();
        return weight_grain(held->format, held->group);
    }

    [[nodiscard]] Result<Held> load(Operation const& op, BlockBody const& body, BlockCut const& cut) const {
        switch (op.kind) {
            case OpKind::norm:
                return load_norm(op, body, cut);
            case OpKind::embedding:
                return load_table(op);
            case OpKind::linear:
                if (auto const attention = attention_that_reads(op.output, body);
                    attention && attention->attention.latent > 0 && op.output == attention->inputs[2])
                    return load_latent(op, attention->attention, cut);
                return body.values()[static_cast<std::size_t>(op.output)].spread == Spread::partial
                           ? load_row(op, cut)
                           : load_column(op, body, cut);
            case OpKind::attention:
                if (model_.config.rounded_alibi) return not_executed("an attention with rounded linear biases (ALiBi)");
                if (model_.config.alibi) return load_slopes(op, cut);
                return op.parameters[0].empty() ? Result<Held>(Held{}) : load_sinks(op, cut);
            case OpKind::route: {
                auto correction = hold_vector(op.parameters[0], op.experts);
                if (!correction) return correction.error();
                return Held{HeldVector<Backend>{std::move(*correction)}};
            }
            case OpKind::experts:
                return load_experts(op, body, cut);
            case OpKind::rope: case OpKind::activation: case OpKind::add: case OpKind::combine:
            case OpKind::last_token: break;
        }
        return Held{};
    }

private:
    [[nodiscard]] std::string name_of(std::string_view parameter) const {
        return prefix_.empty() ? std::string(parameter) : prefix_ + "." + std::string(parameter);
    }
    [[nodiscard]] Result<StoredParameter> find(std::string_view parameter) const {
        return parameters_.find(name_of(parameter));
    }
    /// A vector or some ranges of it; nothing where the operation has none.
    [[nodiscard]] Result<Buffer<float, Backend>> hold_vector(
        std::string_view parameter, std::int64_t count, std::optional<std::span<UnitRange const>> ranges = {}) const {
        if (parameter.empty()) return Buffer<float, Backend>{};
        auto const stored = find(parameter);
        if (!stored) return stored.error();
        auto const values = loader_.floats(*stored, count, ranges);
        if (!values) return values.error();
        return hold_floats<Backend>(context_, *values);
    }

    [[nodiscard]] Result<Held> load_norm(Operation const& op, BlockBody const& body, BlockCut const& cut) const {
        HeldNorm<Backend> norm;
        auto const made = static_cast<std::size_t>(op.output);
        std::optional<std::span<UnitRange const>> own;
        if (spans_ranks(op, body.values()[made])) own = cut.columns[made];
        auto weight = hold_vector(op.parameters[0], op.in_features, own);
        if (!weight) return weight.error();
        norm.weight = std::move(*weight);
        // llama.cpp's norms only multiply: its converter adds the one that gemma's add.
        if (op.norm == NormKind::rms_offset && parameters_.is_gguf()) {
            for (auto& value : std::span(norm.weight.data(), static_cast<std::size_t>(op.in_features))) value -= 1.0F;
        }
        auto bias = hold_vector(op.parameters[1], op.in_features);
        if (!bias) return bias.error();
        norm.bias = std::move(*bias);
        return Held{std::move(norm)};
    }

    /// A sink per head (gpt_oss).
    /// How the scores of the rank's heads fall with distance.
    [[nodiscard]] Result<Held> load_slopes(Operation const& op, BlockCut const& cut) const {
        auto const slopes = alibi_slopes(op.attention.heads);
        auto const own = cut.heads->query;
        auto held =
            hold_floats<Backend>(context_, std::vector<float>(slopes.begin() + own.begin, slopes.begin() + own.end));
        if (!held) return held.error();
        return Held{HeldVector<Backend>{std::move(*held)}};
    }
    [[nodiscard]] Result<Held> load_sinks(Operation const& op, BlockCut const& cut) const {
        auto const stored = find(op.parameters[0]);
        if (!stored) return stored.error();
        if (stored->tensor->shape.rank() != 1) return not_executed("an attention with scores of its own");
        UnitRange const own[] = {cut.heads->query};
        auto held = hold_vector(op.parameters[0], op.attention.heads, own);
        if (!held) return held.error();
        return Held{HeldVector<Backend>{std::move(*held)}};
    }

    [[nodiscard]] Result<Held> load_experts(Operation const& op, BlockBody const& body, BlockCut const& cut) const {
        auto const& made = body.values()[static_cast<std::size_t>(op.output)];
        if (made.spread == Spread::partial) {
            auto rows = experts_.load_rows(op, *cut.pieces[static_cast<std::size_t>(op.inputs[0])]);
            if (!rows) return rows.error();
            return Held{std::move(*rows)};
        }
        bool is_alternating = false;
        for (auto const& reader : body.operations()) {
            bool const reads = reader.kind == OpKind::activation && reader.inputs[0] == op.output;
            is_alternating = is_alternating || (reads && reader.activation == ActivationKind::swiglu_clamped);
        }
        auto columns = experts_.load_columns(op, cut.columns[static_cast<std::size_t>(op.output)], is_alternating);
        if (!columns) return columns.error();
        return Held{std::move(*columns)};
    }

    [[nodiscard]] Result<Held> load_table(Operation const& op) const {
        auto const stored = find(op.parameters[0]);
        if (!stored) return stored.error();
        HeldTable<Backend> table;
        bool const is_dealt = stored->tensor->shard.kind != ShardKind::replicated;
        table.rows = is_dealt ? split_units(op.in_features, place_.ranks, place_.rank) : UnitRange{0, op.in_features};
        UnitRange const rows[] = {table.rows};
        auto slice = loader_.matrix(*stored, {.outputs = op.in_features, .inputs = op.out_features, .rows = rows});
        if (!slice) return slice.error();
        slice->read_once();
        auto const& source = slice->source();
        auto const size = source.data.size();
        auto held =
            Buffer<std::byte, Backend>::allocate(context_, static_cast<std::int64_t>(size + source.scales.size()));
        if (!held) return held.error();
        prefer_huge_pages(held->data(), held->size());
        read_in_order(context_.pool(), source.data, source.is_mapped, static_cast<std::int64_t>(size), 1,
                      std::int64_t{4} << 20, [&](std::int64_t begin, std::int64_t end) {
                          std::memcpy(held->data() + begin, source.data.data() + begin,
                                      static_cast<std::size_t>(end - begin));
                      });
        if (!source.scales.empty()) std::memcpy(held->data() + size, source.scales.data(), source.scales.size());
        table.data = std::move(*held);
        table.source = source;
        table.source.is_mapped = false;
        table.source.data = {table.data.data(), size};
        table.source.scales = {table.data.data() + size, source.scales.size()};
        return Held{std::move(table)};
    }

    /// The rows of the stored weight that make the columns [range] of a value, in the value's order.
    void append_rows(Operation const& op, BlockBody const& body, StoredParameter const& stored, UnitRange range,
                     std::vector<UnitRange>& rows) const {
        auto const attention = attention_that_reads(op.output, body);
        bool const is_fused = attention && attention->inputs[0] == attention->inputs[1];
        // Heads of an odd width have no halves; their rotation is refused.
        bool const is_turned = attention && !is_fused && op.output != attention->inputs[2] && parameters_.is_gguf() &&
                               has_permuted_rows() && attention->attention.key_dim % 2 == 0;
        if (is_turned) {
            // llama.cpp stores the two halves of a head's rows in turn, for its interleaved rotation.
            auto const dim = attention->attention.key_dim;
            for (auto row = range.begin; row < range.end; ++row) {
                auto const in_head = row % dim;
                auto const at = row - in_head + in_head % (dim / 2) * 2 + in_head / (dim / 2);
                rows.push_back({at, at + 1});
            }
            return;
        }
        auto const& rule = stored.tensor->shard;
        // Sharded by heads in one range: each head's query, key and value lie together (gpt_neox, bloom); llama.cpp parts them.
        bool const is_grouped =
            is_fused && !parameters_.is_gguf() && (rule.kind == ShardKind::units || rule.is_grouped);
        if (is_grouped) {
            append_grouped(attention->attention, range, rows);
            return;
        }
        rows.push_back(range);
    }
    /// Rows of a weight that holds, for each key-value head, its query heads, its key and its value.
    static void append_grouped(AttentionShape const& shape, UnitRange range, std::vector<UnitRange>& rows) {
        auto const dim = shape.key_dim;
        auto const group = shape.heads / shape.kv_heads;
        for (auto begin = range.begin; begin < range.end; begin += dim) {
            auto const head = begin / dim;  // of queries, then keys, then values
            std::int64_t at = 0;
            if (head < shape.heads) {
                at = head / group * (group + 2) + head % group;
            } else if (head < shape.heads + shape.kv_heads) {
                at = (head - shape.heads) * (group + 2) + group;
            } else {
                at = (head - shape.heads - shape.kv_heads) * (group + 2) + group + 1;
            }
            rows.push_back({at * dim, (at + 1) * dim});
        }
    }
    [[nodiscard]] static std::optional<Operation> attention_that_reads(ValueId id, BlockBody const& body) {
        for (auto const& op : body.operations()) {
            if (op.kind != OpKind::attention) continue;
            for (auto const in : op.inputs) {
                if (in == id) return op;
            }
        }
        return std::nullopt;
    }
    /// True for families whose query and key rows llama.cpp stores for an interleaved rotation.
    [[nodiscard]] bool has_permuted_rows() const {
        return model_.family != nullptr && model_.family->gguf_form.permutes_rope_rows;
    }

    [[nodiscard]] Result<Held> load_column(Operation const& op, BlockBody const& body, BlockCut const& cut) const {
        auto const stored = find(op.parameters[0]);
        if (!stored) return stored.error();
        // Conv1D's columns are sharded along its second dimension.
        auto const& shape = stored->tensor->shape;
        bool const is_turned = shape.rank() == 2 && shape[0] == op.in_features && shape[1] == op.out_features &&
                               (stored->tensor->shard.dim == 1 || shape[0] != shape[1]);
        std::vector<UnitRange> rows;
        for (auto const& range : cut.columns[static_cast<std::size_t>(op.output)])
            append_rows(op, body, *stored, range, rows);
        auto matrix = loader_.matrix(
            *stored, {.outputs = op.out_features, .inputs = op.in_features, .is_turned = is_turned, .rows = rows});
        if (!matrix) return matrix.error();
        matrix->read_once();
        auto bias = hold_vector(op.parameters[1], op.out_features, rows);
        if (!bias) return bias.error();
        Buffer<float, Backend> const& own_bias = *bias;
        UnitRange const own[] = {{0, matrix->source().outputs}};
        auto column = ColumnLinear<Backend>::create(context_, matrix->source(), own, own_bias.view());
        if (!column) return named(column.error(), op);
        return Held{std::move(*column)};
    }

    [[nodiscard]] Result<Held> load_row(Operation const& op, BlockCut const& cut) const {
        auto const stored = find(op.parameters[0]);
        if (!stored) return stored.error();
        auto const& shape = stored->tensor->shape;
        bool const is_turned = shape.rank() == 2 && shape[0] == op.in_features && shape[1] == op.out_features &&
                               (stored->tensor->shard.dim == 0 || shape[0] != shape[1]);
        auto const& pieces = *cut.pieces[static_cast<std::size_t>(op.inputs[0])];
        auto const own = pieces.inputs_of_rank(place_.ranks, place_.rank);
        auto matrix = loader_.matrix(
            *stored, {.outputs = op.out_features, .inputs = op.in_features, .is_turned = is_turned, .columns = own});
        if (!matrix) return matrix.error();
        matrix->read_once();
        auto bias = hold_vector(op.parameters[1], op.out_features);
        if (!bias) return bias.error();
        Buffer<float, Backend> const& whole = *bias;
        auto row = RowLinear<Backend, Policy>::create(context_, matrix->source(), pieces, place_, whole.view(), own);
        if (!row) return named(row.error(), op);
        return Held{std::move(*row)};
    }
    /// What expands a latent: held by heads, for the attention.
    [[nodiscard]] Result<Held> load_latent(Operation const& op, AttentionShape const& shape,
                                           BlockCut const& cut) const {
        auto const stored = find(op.parameters[0]);
        if (!stored) return stored.error();
        auto const own = cut.heads->query;
        auto const rows_of_head = shape.heads > 0 ? op.out_features / shape.heads : 0;
        UnitRange const rows[] = {{own.begin * rows_of_head, own.end * rows_of_head}};
        auto const matrix =
            loader_.matrix(*stored, {.outputs = op.out_features, .inputs = op.in_features, .rows = rows});
        if (!matrix) return matrix.error();
        auto local = shape;
        local.heads = own.size();
        auto heads = LatentHeads<Backend>::create(context_, matrix->source(), local, {0, own.size()});
        if (!heads) return named(heads.error(), op);
        return Held{std::move(*heads)};
    }
    [[nodiscard]] Error named(Error error, Operation const& op) const { return error.at(name_of(op.parameters[0])); }

    ParameterLoader<Backend>& loader_;
    typename Backend::Context& context_;
    StoredParameters const& parameters_;
    Model const& model_;
    std::string prefix_;
    TensorPlace place_;
    ExpertLoader<Backend, Policy> experts_;
};

}  // namespace detail
}  // namespace shardwise::inline SHARDWISE_NAMESPACE
