// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/block_program.hpp>
#include <shardwise/op/norm.hpp>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How tensor-parallel ranks hold what a product makes: nothing shared, columns of it, or each a summand of all of it.
struct OutputSplit {
    Spread spread = Spread::replicated;
    UnitSplit split{};

    constexpr OutputSplit() = default;
    /// Columns; the weight's outputs are sharded so.
    constexpr OutputSplit(UnitSplit const& columns)
        : spread(columns.is_shared() ? Spread::sharded : Spread::replicated), split(columns) {}
    /// A summand, reduced at once; the weight's inputs are sharded.
    constexpr OutputSplit(Spread held) : spread(held) {}
};

/// Writes a block's operations and the values between them, one call per operation, as the formulas read.
class BodyBuilder {
public:
    constexpr explicit BodyBuilder(Value input) : body_(input) {}
    /// A body that reads the hidden state.
    constexpr explicit BodyBuilder(std::int64_t hidden_size) : body_(Value{.name = "hidden", .width = hidden_size}) {}

    [[nodiscard]] constexpr ValueId input() const { return 0; }
    [[nodiscard]] constexpr Value const& at(ValueId id) const { return body_.values()[static_cast<std::size_t>(id)]; }
    [[nodiscard]] constexpr BlockBody finish() && { return std::move(body_); }

    /// Rows of a table by token id.
    constexpr ValueId embedding(ValueId ids, std::string_view weight, std::int64_t entries, std::int64_t width) {
        return table(ids, TableIndex::token, weight, entries, width);
    }

    /// Rows of a table of positions or token types; position 0 is row `first_row`, the row before it is that of tokens
    /// `skipped_id`, which have no position.
    constexpr ValueId table(ValueId ids, TableIndex index, std::string_view weight, std::int64_t entries,
                            std::int64_t width, std::int64_t first_row = 0, std::int64_t skipped_id = -1) {
        Operation op{.kind = OpKind::embedding, .details = TableRule{index, first_row, skipped_id}};
        op.parameters = {weight};
        op.in_features = entries;
        op.out_features = width;
        return append(op, {ids}, Value{.name = "embedding", .rows = at(ids).rows, .width = width});
    }
    /// A value that the block reads beside its input and that something else makes and owns: the encoder's output.
    constexpr ValueId external(std::string_view name, std::int64_t width) {
        return body_.value(Value{.name = name, .width = width, .is_external = true});
    }

    /// A norm over the last axis. Of a sharded value, whose rows no rank holds whole, ranks add up the squares: the weight's shard
    /// rule is that of the value. Layer norms and packed values are not shared so.
    constexpr ValueId norm(ValueId in, NormKind kind, std::string_view weight, std::string_view bias = {},
                           double epsilon = 0.0) {
        Operation op{.kind = OpKind::norm, .details = NormRule{.kind = kind, .epsilon = epsilon}};
        op.parameters = {weight, bias};
        op.in_features = op.out_features = at(in).width;
        check_norm(op, in);
        auto out = at(in);
        out.name = "normed";
        if (out.spread == Spread::partial) out.spread = Spread::replicated;
        return append(op, {in}, out);
    }
    /// A norm over each head of `head_dim`, in place; of one weight for all heads, or one for each.
    constexpr ValueId head_norm(ValueId in, NormKind kind, std::string_view weight, std::int64_t head_dim,
                                std::string_view bias = {}, bool has_head_weights = false) {
        Operation op{.kind = OpKind::norm, .details = NormRule{.kind = kind, .has_head_weights = has_head_weights}};
        op.parameters = {weight, bias};
        op.in_features = op.out_features = head_dim;
        auto const& value = at(in);
        auto const heads = value.split.all_units();
        auto const unit = value.spread == Spread::sharded && heads > 0 ? value.width / heads : value.width;
        if (head_dim < 1 || (unit % head_dim != 0 && head_dim != value.width))
            body_.refuse(weight, "is a norm of heads that the value is not made of");
        if (has_head_weights && !bias.empty()) body_.refuse(bias, "is a bias of a norm with a weight for each head");
        check_norm(op, in);
        return append_in_place(op, in);
    }

    /// A norm over the first `width` elements of a row, in place.
    constexpr ValueId part_norm(ValueId in, NormKind kind, std::string_view weight, std::int64_t width,
                                double epsilon = 0.0) {
        Operation op{.kind = OpKind::norm,
                     .details = NormRule{.kind = kind, .epsilon = epsilon, .is_first_part = true}};
        op.parameters = {weight};
        op.in_features = op.out_features = width;
        if (at(in).spread == Spread::sharded) body_.refuse(weight, "is a norm of a part of a sharded value");
        if (width < 1 || width > at(in).width) body_.refuse(weight, "is a norm of more than the value has");
        check_norm(op, in);
        return append_in_place(op, in);
    }

    /// in * weight^T + bias; `in_features` above 0 reads only so many of each row.
    constexpr ValueId linear(ValueId in, std::string_view name, std::string_view weight, std::int64_t out_features,
                             OutputSplit const& split = {}, std::string_view bias = {}, std::int64_t in_features = 0) {
        Operation op{.kind = OpKind::linear};
        op.parameters = {weight, bias};
        op.in_features = in_features > 0 ? in_features : at(in).width;
        op.out_features = out_features;
        return append(op, {in}, split_value(name, at(in).rows, out_features, split));
    }

    /// Rotates queries or keys in place.
    constexpr ValueId rope(ValueId in, AttentionShape const& shape) {
        return append_in_place(Operation{.kind = OpKind::rope, .details = shape}, in);
    }

    /// softmax(q k^T) v; k and v enter the cache. Fused projections pass one value for all three (see group_heads). `scores` is a
    /// parameter that changes the scores (a table of relative positions, sinks).
    constexpr ValueId attention(ValueId q, ValueId k, ValueId v, AttentionShape const& shape,
                                std::string_view scores = {}) {
        Operation op{.kind = OpKind::attention, .details = shape};
        op.parameters = {scores};
        for (auto const& made : body_.operations()) {
            if (shape.latent > 0 && made.output == v && made.kind != OpKind::linear)
                body_.refuse(made.parameters[0], "changes the values of an attention that makes them of a latent");
        }
        // Heads of an odd width have no halves; their rotation is refused.
        if (q != k && shape.key_dim % 2 == 0) {
            for (auto const rotated : {q, k}) {
                if (rotated != v) body_.store_heads(rotated, {.rows = HeadRows::rotated, .dim = shape.key_dim});
            }
        }
        return append(op, {q, k, v},
                      Value{.name = "attention",
                            .rows = at(q).rows,
                            .width = shape.heads * shape.value_dim,
                            .spread = Spread::sharded,
                            .split = UnitSplit::units(shape.heads)});
    }

    /// Queries, keys and values that one product makes, whose weight has those of a key-value head together.
    constexpr void group_heads(ValueId made, AttentionShape const& shape) {
        body_.store_heads(
            made, {.rows = HeadRows::grouped, .dim = shape.key_dim, .heads = shape.heads, .kv_heads = shape.kv_heads});
        body_.share(made, UnitSplit::qkv(shape.heads, shape.kv_heads));
    }

    /// act(in); `parameters` are those of an activation that has some (xielu).
    constexpr ValueId activation(ValueId in, ActivationKind kind,
                                 std::array<std::string_view, 4> const& parameters = {}) {
        Operation op{.kind = OpKind::activation, .details = kind};
        op.parameters = parameters;
        if (kind == ActivationKind::xielu && parameters[3].empty()) refuse_alone();
        auto out = at(in);
        out.name = "activated";
        return append(op, {in}, out);
    }
    /// act(gate) * up; one value with both halves passes as `gate` alone through gated_halves.
    constexpr ValueId gated(ValueId gate, ValueId up, ActivationKind kind) {
        Operation const op{.kind = OpKind::activation, .details = kind};
        if (kind == ActivationKind::xielu) refuse_alone();
        auto out = at(gate);
        out.name = "activated";
        return append(op, {gate, up}, out);
    }
    /// act(first half) * second half of a packed gate_up value.
    constexpr ValueId gated_halves(ValueId gate_up, ActivationKind kind) {
        Operation const op{.kind = OpKind::activation, .details = kind};
        if (kind == ActivationKind::xielu) refuse_alone();
        auto out = at(gate_up);
        out.name = "activated";
        out.width /= 2;
        if (out.split.kind == ShardKind::packed_parts) out.split = UnitSplit::units(out.split.count);
        return append(op, {gate_up, gate_up}, out);
    }

    /// act(gate) * in, where gate has one column for the whole row.
    constexpr ValueId scaled_rows(ValueId gate, ValueId in, ActivationKind kind) {
        Operation const op{.kind = OpKind::activation, .details = kind};
        if (kind == ActivationKind::xielu) refuse_alone();
        auto out = at(in);
        out.name = "scaled";
        return append(op, {gate, in}, out);
    }

    /// a + b.
    constexpr ValueId add(ValueId a, ValueId b) {
        auto out = at(a);
        out.name = "sum";
        return append(Operation{.kind = OpKind::add}, {a, b}, out);
    }

    /// in * factor, in place; a factor of 1 is no operation.
    constexpr ValueId scale(ValueId in, double factor) {
        if (factor == 1.0) return in;
        return append_in_place(Operation{.kind = OpKind::scale, .details = ScaleFactor{factor}}, in);
    }

    /// Columns [first, first + width) of each of a value's units.
    constexpr ValueId part(ValueId in, std::string_view name, std::int64_t unit, std::int64_t first,
                           std::int64_t width) {
        Operation op{.kind = OpKind::part, .details = PartColumns{first}};
        op.in_features = unit;
        op.out_features = width;
        if (unit < 1 || first < 0 || width < 1 || first + width > unit || at(in).width % unit != 0)
            body_.refuse(name, "is no part of the value's units");
        auto out = at(in);
        out.name = name;
        out.width = unit > 0 ? out.width / unit * width : 0;
        return append(op, {in}, out);
    }
    /// The gated delta rule over [q, k, v, z] and [b, a] of each key head; `parameters` are the convolution's weight, dt_bias, A_log
    /// and the norm's weight.
    constexpr ValueId gated_delta(ValueId qkvz, ValueId ba, DeltaShape const& shape,
                                  std::array<std::string_view, 4> const& parameters) {
        body_.store_heads(qkvz, {.rows = HeadRows::delta,
                                 .dim = shape.key_dim,
                                 .heads = shape.key_heads,
                                 .value_rows = shape.value_columns()});
        Operation op{.kind = OpKind::gated_delta, .details = shape};
        op.parameters = parameters;
        return append(op, {qkvz, ba},
                      Value{.name = "delta",
                            .rows = at(qkvz).rows,
                            .width = shape.value_heads * shape.value_dim,
                            .spread = Spread::sharded,
                            .split = UnitSplit::units(shape.key_heads)});
    }

    /// The top-k experts and their weights from router scores: [tokens, k] pairs.
    constexpr ValueId route(ValueId scores, std::int64_t experts, std::int64_t experts_per_token,
                            std::string_view bias = {}, RouterRule const& rule = {}) {
        Routing const routing{.experts = experts, .experts_per_token = experts_per_token, .rule = rule};
        Operation op{.kind = OpKind::route, .details = routing};
        op.parameters = {bias};
        return append(op, {scores}, Value{.name = "routes", .width = 2 * experts_per_token, .is_fp32 = true});
    }
    /// One linear per expert over the rows routed to it; `in` is in token order or already routed. `routing` says whether rows are
    /// multiplied by their weights first.
    constexpr ValueId experts(ValueId in, ValueId routes, std::string_view name, std::string_view weight,
                              std::int64_t out_features, Routing const& routing, OutputSplit const& split,
                              std::string_view bias = {}) {
        Operation op{.kind = OpKind::experts, .details = routing};
        op.parameters = {weight, bias};
        op.in_features = at(in).width;
        op.out_features = out_features;
        return append(op, {in, routes}, split_value(name, Rows::routed, out_features, split));
    }
    /// The weighted sum of each token's experts.
    constexpr ValueId combine(ValueId routed, ValueId routes, Routing const& routing) {
        Operation const op{.kind = OpKind::combine, .details = routing};
        auto out = at(routed);
        out.name = "combined";
        out.rows = Rows::tokens;
        return append(op, {routed, routes}, out);
    }

    /// A row of each sequence: its last, its first, or the mean of all its rows, of which a step has all.
    constexpr ValueId last_token(ValueId in, TakenRow row = TakenRow::last) {
        auto out = at(in);
        out.name = "last";
        out.rows = Rows::sequences;
        return append(Operation{.kind = OpKind::last_token, .details = row}, {in}, out);
    }
    /// The first row of each sequence, and the mean of its rows.
    constexpr ValueId first_token(ValueId in) { return last_token(in, TakenRow::first); }
    constexpr ValueId mean_token(ValueId in) { return last_token(in, TakenRow::mean); }
    /// Scores of every vocabulary entry, fp32, sharded by vocabulary columns.
    constexpr ValueId logits(ValueId in, std::string_view weight, std::int64_t vocab_size, std::string_view bias = {}) {
        auto const out = linear(in, "logits", weight, vocab_size, UnitSplit::units(vocab_size), bias);
        return out;
    }

protected:
    /// The weight of the product that makes a value; empty where none does.
    [[nodiscard]] constexpr std::string_view weight_of(ValueId made) const {
        for (auto const& op : body_.operations()) {
            if (op.kind == OpKind::linear && op.output == made) return op.parameters[0];
        }
        return {};
    }
    constexpr void refuse(std::string_view parameter, std::string_view reason) { body_.refuse(parameter, reason); }
    /// How a router sends tokens to experts, whose routes a value is.
    [[nodiscard]] constexpr Routing routing_of(ValueId routes) const {
        auto const& operations = body_.operations();
        auto i = operations.size() - 1;
        while (i > 0 && operations[i].output != routes) --i;
        return operations[i].details.any_routing();
    }

private:
    /// Notes an xielu whose numbers the operation does not name.
    constexpr void refuse_alone() {
        body_.refuse("xielu", "is computed with the parameters of a module, without a gate");
    }
    /// Notes the norms that the executor does not compute.
    constexpr void check_norm(Operation const& op, ValueId in) {
        auto const& value = at(in);
        if (!is_layer_norm(op.norm().kind) && !op.parameters[1].empty())
            return body_.refuse(op.parameters[1], "is the bias of an rms norm, which has none");
        if (!spans_ranks(op, value)) return;
        auto const weight = op.parameters[0];
        if (is_layer_norm(op.norm().kind)) return body_.refuse(weight, "is a layer norm over a sharded value");
        if (value.split.kind == ShardKind::packed_qkv)
            return body_.refuse(weight, "is a norm over packed queries, keys and values");
        if (value.rows == Rows::routed) return body_.refuse(weight, "is a norm over experts' sharded rows");
    }
    static constexpr Value split_value(std::string_view name, Rows rows, std::int64_t width, OutputSplit const& split) {
        Value out{.name = name, .rows = rows, .width = width, .spread = split.spread, .split = split.split};
        out.is_fp32 = name == "logits";
        return out;
    }
    constexpr ValueId append(Operation op, std::initializer_list<ValueId> inputs, Value const& out) {
        std::size_t slot = 0;
        for (auto const id : inputs) op.inputs[slot++] = id;
        op.output = body_.value(out);
        return body_.append(op);
    }
    constexpr ValueId append_in_place(Operation op, ValueId in) {
        op.inputs[0] = in;
        op.output = in;
        return body_.append(op);
    }

    BlockBody body_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
