// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/stored_parameter.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/executor/training/held_part.hpp>
#include <shardwise/executor/training/parameter_piece.hpp>
#include <shardwise/executor/training/trained_adapter.hpp>
#include <shardwise/executor/training/training_stage.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/op/visit_op.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a product is shared over tensor-parallel ranks while it is trained.
enum class TrainedCut : std::uint8_t {
    none,     // each rank computes all of it
    outputs,  // a rank has rows of the weight, and makes its columns of the output: q, k, v, gate, up
    inputs,   // a rank has columns of the weight, those of the inputs that it has: attention's output, down
};

namespace detail {

/// Whether tensor-parallel ranks train an operation between values that they share.
struct IsShared {
    bool operator()(NormOp) const { return true; }
    bool operator()(LinearOp) const { return true; }
    bool operator()(RopeOp) const { return true; }
    bool operator()(AttentionOp) const { return true; }
    bool operator()(ActivationOp) const { return true; }
    bool operator()(AddOp) const { return true; }
    bool operator()(ScaleOp) const { return true; }
    bool operator()(EmbeddingOp) const { return false; }
    bool operator()(LastTokenOp) const { return false; }
    bool operator()(RouteOp) const { return false; }
    bool operator()(ExpertsOp) const { return false; }
    bool operator()(CombineOp) const { return false; }
    bool operator()(PartOp) const { return false; }
    bool operator()(GatedDeltaOp) const { return false; }
};

}  // namespace detail

/// How tensor-parallel ranks share a model that they train: columns of the values inside layers, query heads with the key-value heads that
/// they read, and rows or columns of the weights that make or read those. Ranks cut columns and never sums, so that any number of them has the
/// bits of one: a product that sums over what ranks share takes all of its inputs from them, and each rank makes some of its outputs.
///
/// The vocabulary is shared, too: a rank has rows of the embedding and of the head. Norms and what else is outside of layers is whole on
/// every rank.
class TensorCuts {
public:
    TensorCuts() = default;

    /// One rank shares nothing. `model` outlives this, and the adapter's halves are shared as the products beside them.
    ///
    /// Errors  invalid_argument for a rank that there is not, more ranks than query heads or than columns; unsupported with the
    ///         operation that ranks cannot share
    [[nodiscard]] static Result<TensorCuts> create(Model const& model, TrainingPlace const& place,
                                                   TrainedAdapter const& adapter = {}) {
        if (auto const checked = detail::check_place("training", place); !checked) return checked.error();
        TensorCuts out;
        out.place_ = place;
        out.blocks_.resize(model.program.blocks().size());
        if (place.ranks == 1) return out;
        if (!adapter.empty() && adapter.options().rank < place.ranks)
            return Error{ErrorCode::invalid_argument}
                .in("low-rank adapter")
                .at("rank")
                .because("is below the tensor-parallel ranks, of which each makes some of its columns")
                .got(adapter.options().rank)
                .at_least(place.ranks);
        std::map<std::string, Tensor const*, std::less<>> tensors;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) { tensors.emplace(name, &tensor); });
        for (auto const& half : adapter.halves()) tensors.emplace(half.name, &half.tensor);
        std::size_t number = 0;
        for (auto const& block : model.program.blocks()) {
            auto const body = adapter.with_halves(model.program.body(block), block);
            auto& cuts = out.blocks_[number++];
            if (!has_attention(body)) {
                bool const is_last = number == out.blocks_.size();
                auto const& held = adapter.options().held;
                auto const done = out.add_vocabulary(body, std::string(block.module), is_last, tensors, held);
                if (!done) return done.error();
                continue;
            }
            if (auto const checked = check_heads(body, block.module, place); !checked) return checked.error();
            for (std::int64_t rank = 0; rank < place.ranks; ++rank) {
                auto const grain_of = [&](Operation const& op) { return grain(body, op, place); };
                auto cut = detail::BlockCutter<Fast>(body, {place.ranks, rank}, grain_of).cut();
                if (!cut) return cut.error();
                cuts.push_back(std::move(*cut));
            }
            if (auto const checked = check_block(body, block.module, cuts); !checked) return checked.error();
            for (std::int32_t i = 0; i < block.count; ++i) {
                auto const prefix = block_path(block, i);
                for (auto const& op : body.operations()) {
                    if (op.kind != OpKind::linear) continue;
                    auto const& held = adapter.options().held;
                    auto const done = out.add(model, body, cuts, op, prefix, tensors, held);
                    if (!done) return done.error();
                }
            }
        }
        return out;
    }

    [[nodiscard]] TrainingPlace const& place() const { return place_; }
    /// By rank, of a block of the program by its number; empty where every rank computes all of it.
    [[nodiscard]] std::vector<BlockCut> const& block(std::size_t number) const { return blocks_[number]; }
    /// Null where every rank has all of it.
    [[nodiscard]] ParameterCut const* find(std::string_view parameter) const {
        auto const found = parameters_.find(parameter);
        return found == parameters_.end() ? nullptr : &found->second;
    }
    /// The same of a frozen product that is held in a format of its own.
    [[nodiscard]] HeldCut const* find_held(std::string_view parameter) const {
        auto const found = held_.find(parameter);
        return found == held_.end() ? nullptr : &found->second;
    }
    [[nodiscard]] static TrainedCut cut_of(Operation const& op, BlockBody const& body,
                                           std::vector<BlockCut> const& cuts) {
        if (op.kind != OpKind::linear || cuts.empty()) return TrainedCut::none;
        if (is_cut(op.output, body, cuts)) return TrainedCut::outputs;
        return is_cut(op.inputs[0], body, cuts) ? TrainedCut::inputs : TrainedCut::none;
    }
    [[nodiscard]] static bool is_cut(ValueId id, BlockBody const& body, std::vector<BlockCut> const& cuts) {
        return cuts.front().width(id) != body.values()[static_cast<std::size_t>(id)].width;
    }

private:
    using Tensors = std::map<std::string, Tensor const*, std::less<>>;

    [[nodiscard]] static bool has_attention(BlockBody const& body) {
        for (auto const& op : body.operations()) {
            if (op.kind == OpKind::attention) return true;
        }
        return false;
    }
    /// The attention that makes a value, also through norms and gates.
    [[nodiscard]] static AttentionShape const* attention_of(BlockBody const& body, ValueId id) {
        for (auto i = body.operations().size(); i-- > 0;) {
            auto const& op = body.operations()[i];
            if (op.output != id) continue;
            if (op.kind == OpKind::attention) return &op.attention();
            if (op.kind != OpKind::norm && op.kind != OpKind::activation) continue;
            for (auto const in : op.inputs) {
                if (in == no_value || in == id) continue;
                if (auto const* const found = attention_of(body, in)) return found;
            }
        }
        return nullptr;
    }
    /// Query heads that read one key-value head are not parted, but where ranks exceed those.
    [[nodiscard]] static Result<WeightGrain> grain(BlockBody const& body, Operation const& op,
                                                   TensorPlace const& place) {
        auto const* const shape = attention_of(body, op.inputs[0]);
        if (shape == nullptr) return WeightGrain{};
        auto const heads = place.ranks > shape->kv_heads ? 1 : shape->heads / shape->kv_heads;
        return WeightGrain{heads * shape->value_dim, 1};
    }
    [[nodiscard]] static Result<> check_heads(BlockBody const& body, std::string_view module,
                                              TensorPlace const& place) {
        for (auto const& op : body.operations()) {
            if (op.kind != OpKind::attention) continue;
            auto const& shape = op.attention();
            if (shape.kv_heads >= place.ranks) continue;
            if (place.ranks > shape.heads)
                return Error{ErrorCode::invalid_argument}
                    .in(module)
                    .at("tp")
                    .because("is more than the query heads")
                    .got(place.ranks)
                    .at_most(shape.heads)
                    .fix("let the others be data-parallel ranks");
        }
        return {};
    }
    [[nodiscard]] static Result<> check_block(BlockBody const& body, std::string_view module,
                                              std::vector<BlockCut> const& cuts) {
        for (auto const& op : body.operations()) {
            Error refused{ErrorCode::unsupported};
            refused.in(module).at(op.parameters[0].empty() ? visit_op(op.kind, [](auto of) { return of.name; })
                                                           : op.parameters[0]);
            if (!visit_op(op.kind, detail::IsShared{}))
                return refused.because("is not trained by tensor-parallel ranks yet");
            for (auto const& cut : cuts) {
                if (cut.width(op.output) > 0) continue;
                return Error{ErrorCode::invalid_argument}
                    .in(module)
                    .at("tp")
                    .because("is more than the columns of a value that ranks share")
                    .got(static_cast<std::int64_t>(cuts.size()))
                    .fix("use fewer tensor-parallel ranks");
            }
            bool const is_of_both =
                op.kind == OpKind::linear && is_cut(op.output, body, cuts) && is_cut(op.inputs[0], body, cuts);
            if (is_of_both)
                return refused.because("reads what ranks share and makes what they share, which is not trained yet");
        }
        return {};
    }

    /// Rows of tables of words, and of the product that makes logits: with a copy that is cut by columns.
    [[nodiscard]] Result<> add_vocabulary(BlockBody const& body, std::string const& module, bool is_last,
                                          Tensors const& tensors, HeldProducts const& held) {
        for (auto const& op : body.operations()) {
            bool const is_head = is_last && op.kind == OpKind::linear && &op == &body.operations().back();
            if (!is_head && !(op.kind == OpKind::embedding && op.table().index == TableIndex::token)) continue;
            auto const found = tensors.find(detail::parameter_name(module, op.parameters[0], 0));
            if (found == tensors.end() || found->second->is_transposed || found->second->shape.rank() != 2)
                return Error{ErrorCode::unsupported}
                    .in(module)
                    .at(op.parameters[0])
                    .because("is no table of rows for tensor-parallel ranks to share");
            auto const rows = found->second->shape[0];
            auto const columns = found->second->shape[1];
            if (rows < place_.ranks)
                return Error{ErrorCode::invalid_argument}
                    .in(module)
                    .at("tp")
                    .because("is more than the vocabulary")
                    .got(place_.ranks)
                    .at_most(rows);
            if (auto const format = held.find(found->first); format != held.end()) {
                held_.emplace(found->first, held_table(format->second, rows, columns));
                continue;
            }
            ParameterCut made;
            for (std::int64_t rank = 0; rank < place_.ranks; ++rank) {
                made.own.push_back({{split_units(rows, place_.ranks, rank)}, {{0, columns}}});
                made.counted.push_back(made.own.back());
                made.turned.push_back({{{0, rows}}, {split_units(columns, place_.ranks, rank)}});
            }
            parameters_.emplace(found->first, std::move(made));
        }
        return {};
    }

    [[nodiscard]] HeldCut held_table(HeldFormat format, std::int64_t rows, std::int64_t columns) const {
        HeldCut made;
        for (std::int64_t rank = 0; rank < place_.ranks; ++rank) {
            auto const share = split_units(columns, place_.ranks, rank);
            made.own.push_back(
                HeldPart::create(format, {split_units(rows, place_.ranks, rank)}, {0, columns}, columns));
            made.turned.push_back(HeldPart::create(format, {{0, rows}}, share, columns));
        }
        return made;
    }
    [[nodiscard]] Result<> add(Model const& model, BlockBody const& body, std::vector<BlockCut> const& cuts,
                               Operation const& op, std::string const& prefix, Tensors const& tensors,
                               HeldProducts const& held) {
        auto const kind = cut_of(op, body, cuts);
        if (kind == TrainedCut::none) return {};
        auto const format = held.find(detail::parameter_name(prefix, op.parameters[0], 0));
        if (format != held.end()) return add_held(cuts, op, prefix, kind, *format);
        for (std::size_t slot = 0; slot < 2; ++slot) {
            // The bias of a sum is added once, to the sum.
            if (op.parameters[slot].empty() || (slot > 0 && kind == TrainedCut::inputs)) continue;
            auto const name = detail::parameter_name(prefix, op.parameters[slot], 0);
            auto const found = tensors.find(name);
            if (found == tensors.end())
                return Error{ErrorCode::unknown_name}.in(name).because("is no parameter of the model");
            Tensor const& tensor = *found->second;
            ParameterCut made;
            for (std::int64_t rank = 0; rank < place_.ranks; ++rank) {
                auto const& cut = cuts[static_cast<std::size_t>(rank)];
                std::vector<UnitRange> const inputs{{0, op.in_features}};
                std::vector<UnitRange> const outputs{{0, op.out_features}};
                auto const& columns =
                    cut.columns[static_cast<std::size_t>(kind == TrainedCut::outputs ? op.output : op.inputs[0])];
                if (kind == TrainedCut::inputs) {
                    made.own.push_back(piece_of(tensor, outputs, columns));
                    made.counted.push_back(made.own.back());
                    made.turned.push_back(piece_of(tensor, {split_units(op.out_features, place_.ranks, rank)}, inputs));
                    continue;
                }
                auto const product = is_low_rank_b(op.parameters[0]) ? low_rank_product(op, body) : op.output;
                auto const rows = stored_rows(op, model, false, columns);
                auto const counted = stored_rows(op, model, false, counted_columns(product, cuts, rank));
                if (slot > 0) {
                    made.own.push_back({rows, {{0, 1}}});
                    made.counted.push_back({counted, {{0, 1}}});
                    continue;
                }
                if (tensor.is_transposed && counted != rows)
                    return Error{ErrorCode::unsupported}.in(name).because(
                        "has key-value heads that several tensor-parallel ranks read, as columns, which is not trained "
                        "yet");
                made.own.push_back(piece_of(tensor, rows, inputs));
                made.counted.push_back(piece_of(tensor, counted, inputs));
                made.turned.push_back(piece_of(tensor, outputs, {split_units(op.in_features, place_.ranks, rank)}));
            }
            auto const [place, is_new] = parameters_.emplace(name, made);
            if (!is_new && !(place->second == made))
                return Error{ErrorCode::unsupported}.in(name).because(
                    "is read by products that tensor-parallel ranks share in two ways, which is not trained yet");
        }
        return {};
    }
    /// A product whose rows lie in the order of what it makes, and its bias.
    [[nodiscard]] Result<> add_held(std::vector<BlockCut> const& cuts, Operation const& op, std::string const& prefix,
                                    TrainedCut kind, HeldProducts::value_type const& product) {
        auto const& name = product.first;
        HeldCut made;
        ParameterCut bias;
        for (std::int64_t rank = 0; rank < place_.ranks; ++rank) {
            auto const& cut = cuts[static_cast<std::size_t>(rank)];
            bool const is_of_outputs = kind == TrainedCut::outputs;
            auto const& columns = cut.columns[static_cast<std::size_t>(is_of_outputs ? op.output : op.inputs[0])];
            auto const part = [&](std::vector<UnitRange> rows, UnitRange of) {
                return HeldPart::create(product.second, std::move(rows), of, op.in_features);
            };
            auto const share = split_units(is_of_outputs ? op.in_features : op.out_features, place_.ranks, rank);
            if (is_of_outputs) {
                made.own.push_back(part(columns, {0, op.in_features}));
                made.turned.push_back(part({{0, op.out_features}}, share));
                bias.own.push_back({columns, {{0, 1}}});
                continue;
            }
            if (columns.size() != 1)
                return Error{ErrorCode::unsupported}.in(name).because(
                    "is held packed and reads columns that do not lie together, which ranks do not share yet");
            made.own.push_back(part({{0, op.out_features}}, columns.front()));
            made.turned.push_back(part({share}, {0, op.in_features}));
        }
        held_.emplace(name, std::move(made));
        if (op.parameters[1].empty() || kind == TrainedCut::inputs) return {};
        bias.counted = bias.own;
        parameters_.emplace(detail::parameter_name(prefix, op.parameters[1], 0), std::move(bias));
        return {};
    }
    /// Of a rank's columns of a value, those that no rank after it has: of its key-value heads the next ranks may have the last one, and
    /// where queries lie with keys and values, what is counted does not lie together.
    [[nodiscard]] static std::vector<UnitRange> counted_columns(ValueId id, std::vector<BlockCut> const& cuts,
                                                                std::int64_t rank) {
        auto const columns_of = [&](std::int64_t of) -> std::vector<UnitRange> const& {
            return cuts[static_cast<std::size_t>(of)].columns[static_cast<std::size_t>(id)];
        };
        auto out = columns_of(rank);
        for (auto after = rank + 1; after < std::ssize(cuts); ++after) {
            for (auto const& other : columns_of(after)) {
                std::vector<UnitRange> left;
                for (auto const& range : out) {
                    bool const is_apart = other.end <= range.begin || range.end <= other.begin;
                    if (is_apart) {
                        left.push_back(range);
                        continue;
                    }
                    if (range.begin < other.begin) left.push_back({range.begin, other.begin});
                    if (other.end < range.end) left.push_back({other.end, range.end});
                }
                out = std::move(left);
            }
        }
        return out;
    }
    [[nodiscard]] static ParameterPiece piece_of(Tensor const& tensor, std::vector<UnitRange> outputs,
                                                 std::vector<UnitRange> inputs) {
        if (tensor.is_transposed) return {std::move(inputs), std::move(outputs)};
        return {std::move(outputs), std::move(inputs)};
    }

    TrainingPlace place_;
    std::vector<std::vector<BlockCut>> blocks_;
    std::map<std::string, ParameterCut, std::less<>> parameters_;
    std::map<std::string, HeldCut, std::less<>> held_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
