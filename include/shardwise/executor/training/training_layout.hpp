// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/held_part.hpp>
#include <shardwise/executor/training/parameter_piece.hpp>
#include <shardwise/executor/training/tensor_cuts.hpp>
#include <shardwise/executor/training/trained_adapter.hpp>
#include <shardwise/executor/training/training_parameter.hpp>
#include <shardwise/executor/training/training_stage.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/walk.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a model's parameters lie in one vector of floats, in the tree's order. Gradients lie at the same places; after them those of
/// tied names, which are summed by themselves and added to those of the first name once (`ties`).
///
/// Of tensor-parallel ranks each has a layout of its own, of what it holds; of a pipeline's stages, of its chunks, one after another: the
/// gradients of each lie together.
///
/// Units   elements; every parameter begins at a multiple of 16, where registers may load from
class TrainingLayout {
public:
    struct Tie {
        /// The other name.
        std::string name;
        /// Of its gradient.
        std::int64_t begin = 0;
        /// The parameter to whose gradient it is added.
        std::size_t parameter = 0;
        /// Among the model's ties.
        std::size_t number = 0;
    };
    /// What a name stands for.
    struct Place {
        /// The number of its parameter; of tied names that of the first.
        std::size_t parameter = 0;
        /// The number of its gradient among those of parameters and, after them, of ties; and where that begins.
        std::size_t gradient = 0;
        std::int64_t gradient_begin = 0;
        /// It has no gradient: its number is that among the frozen ones.
        bool is_frozen = false;
    };

    /// With an adapter its halves are the parameters, by the names that PEFT's files have, and behind them lies what is frozen: all of the
    /// model's. `model` outlives this.
    ///
    /// Errors  size_overflow; as StageParts
    [[nodiscard]] static Result<TrainingLayout> create(Model const& model, TensorCuts const& cuts = {},
                                                       TrainedAdapter const& adapter = {}) {
        TrainingLayout out;
        out.place_ = cuts.place();
        auto parts = StageParts::create(model, out.place_.pipeline);
        if (!parts) return parts.error();
        out.parts_ = std::move(*parts);
        out.adapter_ = adapter;
        bool const is_frozen = !adapter.empty();
        Taker next;
        if (!is_frozen) out.name_all(model);
        for (auto const& half : out.adapter_.halves()) {
            out.names_.push_back(std::string(Adapter::prefix) + half.name);
            out.whole_elements_ += half.tensor.shape.elements();
        }
        for (std::int64_t chunk = 0; chunk < out.place_.pipeline.chunks; ++chunk) {
            auto const begin = next.next;
            if (is_frozen)
                out.take_halves(cuts, chunk, next);
            else
                out.take_chunk(model, cuts, chunk, next);
            out.chunks_.push_back({begin, next.next});
        }
        auto const trained_elements = next.next;
        if (is_frozen) {
            if (auto const taken = out.take_frozen(model, cuts, next); !taken) return taken.error();
        }
        out.weight_elements_ = next.next;
        out.take_ties(model, is_frozen, next);
        out.gradient_elements_ = is_frozen ? trained_elements : next.next;
        // The head is in the last chunk, and with it what is tied to what stands before.
        out.chunks_.back().end = out.gradient_elements_;
        if (!next.is_countable) return Error{ErrorCode::size_overflow}.in("training").at("parameters");
        return Result<TrainingLayout>(std::move(out));
    }

    /// Those that are trained.
    [[nodiscard]] std::vector<TrainingParameter> const& parameters() const { return parameters_; }
    /// Those that stay as they are, beside an adapter.
    [[nodiscard]] std::vector<TrainingParameter> const& frozen() const { return frozen_; }
    [[nodiscard]] TrainedAdapter const& adapter() const { return adapter_; }
    [[nodiscard]] TrainingParameter const& at(Place const& place) const {
        return place.is_frozen ? frozen_[place.parameter] : parameters_[place.parameter];
    }
    /// Of what this rank holds of a parameter, or after those of a tie, the number of an element in the whole.
    [[nodiscard]] std::int64_t whole_element(std::size_t gradient, std::int64_t element) const {
        auto const number = gradient < parameters_.size() ? gradient : ties_[gradient - parameters_.size()].parameter;
        auto out = element;
        parameters_[number].for_each_run({element, element + 1},
                                         [&](std::int64_t whole, std::int64_t, std::int64_t) { out = whole; });
        return out;
    }
    [[nodiscard]] std::vector<Tie> const& ties() const { return ties_; }
    [[nodiscard]] std::optional<Place> find(std::string_view name) const {
        auto const found = places_.find(name);
        return found == places_.end() ? std::nullopt : std::optional(found->second);
    }
    /// Of all weights, and of all gradients, gaps included.
    [[nodiscard]] std::int64_t weight_elements() const { return weight_elements_; }
    [[nodiscard]] std::int64_t gradient_elements() const { return gradient_elements_; }
    /// By chunk of this rank, where its gradients lie.
    [[nodiscard]] std::vector<UnitRange> const& chunks() const { return chunks_; }
    /// Of the model's parameters, whoever holds them.
    [[nodiscard]] std::int64_t whole_elements() const { return whole_elements_; }
    /// The rank whose layout this is, and the part of the model's layers that it has.
    [[nodiscard]] TrainingPlace const& place() const { return place_; }
    [[nodiscard]] StageParts const& parts() const { return parts_; }
    /// Of what this rank holds of a parameter, or after those of a tie, the number among all of the model's; and by that, its name.
    [[nodiscard]] std::size_t whole_number(std::size_t gradient) const {
        auto const parameters = parameters_.size();
        if (gradient >= parameters) return of_tie(ties_[gradient - parameters].number);
        auto const& parameter = parameters_[gradient];
        return parameter.is_copy ? of_tie(parts_.tie_of(parameter.name)->number) : parameter.number;
    }
    [[nodiscard]] std::string_view whole_name(std::size_t number) const { return names_[number]; }
    /// Of all copies that are cut along the other axis, gaps included; and what ranks exchange at a time to renew them.
    [[nodiscard]] std::int64_t turned_elements() const { return turned_elements_; }
    [[nodiscard]] std::int64_t exchanged_elements() const {
        std::int64_t most = 0;
        for (auto const& parameter : parameters_) {
            if (parameter.turned_elements == 0) continue;
            most = std::max(most, round_up(parameter.elements, alignment) + parameter.turned_elements);
        }
        return most;
    }

    /// Of all products that are held in formats of their own.
    [[nodiscard]] std::int64_t held_bytes() const { return held_bytes_; }

    static constexpr std::int64_t alignment = 16;
    static constexpr std::int64_t held_alignment = 64;

private:
    static constexpr std::int64_t max_elements = std::int64_t{1} << 48U;

    /// `cut` is null where every rank has all of it.
    [[nodiscard]] Result<> hold(TrainingParameter& parameter, HeldFormat format, HeldCut const* cut) {
        auto const place = [&](HeldPart part, std::int64_t& elements) -> Result<HeldPart> {
            auto const bytes = detail::source_bytes(part.source());
            if (!bytes) return bytes.error();
            part.begin = held_bytes_;
            part.bytes = round_up(bytes->data, held_alignment) + round_up(bytes->scales, held_alignment);
            held_bytes_ += part.bytes;
            elements = part.elements();
            return part;
        };
        auto const& shape = parameter.tensor->shape;
        auto const outputs = shape[parameter.tensor->is_transposed ? 1 : 0];
        auto const inputs = shape[parameter.tensor->is_transposed ? 0 : 1];
        auto own = place(
            cut == nullptr ? HeldPart::create(format, {{0, outputs}}, {0, inputs}, inputs) : cut->own[parameter.rank],
            parameter.elements);
        if (!own) return own.error();
        parameter.held = std::move(*own);
        if (cut == nullptr) return {};
        auto turned = place(cut->turned[parameter.rank], parameter.turned_elements);
        if (!turned) return turned.error();
        parameter.held_turned = std::move(*turned);
        return {};
    }

    /// Gives out places, one after another.
    struct Taker {
        std::int64_t next = 0;
        bool is_countable = true;

        std::int64_t take(std::int64_t elements) {
            auto const begin = next;
            auto const end = checked_add(next, elements);
            is_countable = is_countable && elements > 0 && end && *end < max_elements;
            if (is_countable) next = round_up(*end, alignment);
            return begin;
        }
    };

    [[nodiscard]] std::size_t of_tie(std::size_t number) const { return ties_begin_ + number; }
    /// The first name of a tie whose other name this is; empty for all others.
    [[nodiscard]] static std::string_view first_of(Model const& model, std::string_view name) {
        for (auto const& tie : model.tree.ties()) {
            if (tie.other == name) return tie.first;
        }
        return {};
    }
    [[nodiscard]] static bool is_other(Model const& model, std::string_view name) {
        return !first_of(model, name).empty();
    }
    /// Counts all of the model's parameters and, after them, ties.
    void name_all(Model const& model) {
        std::vector<std::string> others;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter()) return;
            if (auto const first = first_of(model, name); !first.empty()) {
                others.push_back(std::string(first) + " (as " + std::string(name) + ")");
                return;
            }
            names_.emplace_back(name);
            whole_elements_ += tensor.shape.checked_elements().value_or(0);
        });
        ties_begin_ = names_.size();
        names_.insert(names_.end(), others.begin(), others.end());
    }
    /// The parameters of a chunk, in the tree's order.
    void take_chunk(Model const& model, TensorCuts const& cuts, std::int64_t chunk, Taker& next) {
        std::size_t number = 0;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter() || is_other(model, name)) return;
            auto const own = number++;
            auto const* const tie = parts_.tie_of(name);
            bool const is_first = parts_.has(name, chunk);
            bool const is_copy = !is_first && tie != nullptr && parts_.has(tie->other, chunk);
            auto const elements = tensor.shape.checked_elements();
            next.is_countable = next.is_countable && elements;
            if ((!is_first && !is_copy) || !next.is_countable) return;
            auto parameter = describe(name, tensor, *elements, cuts);
            parameter.begin = next.take(parameter.elements);
            parameter.number = own;
            parameter.is_copy = is_copy;
            Place const place{parameters_.size(), parameters_.size(), parameter.begin};
            places_.emplace(name, place);
            if (is_copy) places_.emplace(tie->other, place);
            parameters_.push_back(std::move(parameter));
        });
    }
    /// The halves of a chunk's products.
    void take_halves(TensorCuts const& cuts, std::int64_t chunk, Taker& next) {
        std::size_t number = 0;
        for (auto const& half : adapter_.halves()) {
            auto const own = number++;
            if (!parts_.has(half.weight, chunk)) continue;
            auto parameter = describe(half.name, half.tensor, half.tensor.shape.elements(), cuts);
            parameter.name = names_[own];
            parameter.begin = next.take(parameter.elements);
            parameter.number = own;
            places_.emplace(half.name, Place{parameters_.size(), parameters_.size(), parameter.begin});
            parameters_.push_back(std::move(parameter));
        }
    }
    /// Whether a chunk of this rank reads a parameter under this name.
    [[nodiscard]] bool reads(std::string_view name) const {
        for (std::int64_t chunk = 0; chunk < place_.pipeline.chunks; ++chunk) {
            if (parts_.has(name, chunk)) return true;
        }
        return false;
    }
    [[nodiscard]] Result<> take_frozen(Model const& model, TensorCuts const& cuts, Taker& next) {
        Result<> wrong;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter() || is_other(model, name)) return;
            auto const elements = tensor.shape.checked_elements();
            next.is_countable = next.is_countable && elements;
            if (!next.is_countable) return;
            auto const* const tie = parts_.tie_of(name);
            bool const is_copy = !reads(name) && tie != nullptr && reads(tie->other);
            if (!is_copy && !reads(name)) return;
            auto parameter = describe(name, tensor, *elements, cuts);
            auto const held = adapter_.options().held.find(name);
            if (held != adapter_.options().held.end()) {
                auto const done = hold(parameter, held->second, cuts.find_held(name));
                if (!done) return wrong = done.error(), void();
            } else {
                parameter.begin = next.take(parameter.elements);
            }
            Place const place{frozen_.size(), frozen_.size(), parameter.begin, true};
            places_.emplace(name, place);
            if (is_copy) places_.emplace(tie->other, place);
            frozen_.push_back(std::move(parameter));
        });
        return wrong;
    }
    /// The other names of what this rank has.
    void take_ties(Model const& model, bool is_frozen, Taker& next) {
        std::size_t count = 0;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter() || !is_other(model, name)) return;
            auto const number = count++;
            if (places_.count(name) > 0) return;
            for (auto const& tie : model.tree.ties()) {
                auto const first = tie.other == name ? places_.find(std::string(tie.first)) : places_.end();
                bool const is_elsewhere = first != places_.end() && parts_.tie_of(tie.first) != nullptr;
                if (first == places_.end() || is_elsewhere) continue;
                auto const parameter = first->second.parameter;
                if (is_frozen) {
                    auto const place = first->second;
                    places_.emplace(name, place);
                    break;
                }
                auto const begin = next.take(parameters_[parameter].elements);
                places_.emplace(name, Place{parameter, parameters_.size() + ties_.size(), begin});
                ties_.push_back({std::string(name), begin, parameter, number});
                break;
            }
        });
    }
    [[nodiscard]] TrainingParameter describe(std::string_view name, Tensor const& tensor, std::int64_t elements,
                                             TensorCuts const& cuts) {
        TrainingParameter out;
        out.name = name;
        out.tensor = &tensor;
        out.rank = static_cast<std::size_t>(place_.rank);
        out.elements = out.whole_elements = elements;
        out.counted_runs = {{0, elements}};
        if (tensor.shape.rank() == 2) out.stride = tensor.shape[1];
        auto const* const cut = cuts.find(name);
        if (cut == nullptr) return out;
        out.cut = *cut;
        out.elements = cut->own[out.rank].elements();
        out.counted_runs = cut->own[out.rank].runs_of(cut->counted[out.rank]);
        if (cut->turned.empty()) return out;
        out.turned_begin = turned_elements_;
        out.turned_elements = cut->turned[out.rank].elements();
        turned_elements_ = round_up(turned_elements_ + out.turned_elements, alignment);
        return out;
    }

    TrainingPlace place_;
    StageParts parts_;
    /// Owns the tensors of its halves.
    TrainedAdapter adapter_;
    std::vector<TrainingParameter> parameters_;
    std::vector<TrainingParameter> frozen_;
    std::vector<Tie> ties_;
    std::map<std::string, Place, std::less<>> places_;
    std::vector<UnitRange> chunks_;
    /// Of all of the model's parameters and, from `ties_begin_` on, ties.
    std::vector<std::string> names_;
    std::size_t ties_begin_ = 0;
    std::int64_t whole_elements_ = 0;
    std::int64_t weight_elements_ = 0;
    std::int64_t gradient_elements_ = 0;
    std::int64_t turned_elements_ = 0;
    std::int64_t held_bytes_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
