// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/walk.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A parameter that is trained, by its name in the model's tree.
struct TrainingParameter {
    std::string name;
    Tensor const* tensor = nullptr;
    /// Of its first element.
    std::int64_t begin = 0;
    std::int64_t elements = 0;
};

/// Where a model's parameters lie in one vector of floats, in the tree's order. Gradients lie at the same places; after them those of
/// tied names, which are summed by themselves and added to those of the first name once (`ties`).
///
/// Units   elements; every parameter begins at a multiple of 16, where registers may load from
class TrainingLayout {
public:
    struct Tie {
        /// Of the gradient of the other name.
        std::int64_t begin = 0;
        /// The parameter to whose gradient it is added.
        std::size_t parameter = 0;
    };

    /// `model` outlives this.
    ///
    /// Errors  size_overflow
    [[nodiscard]] static Result<TrainingLayout> create(Model const& model) {
        TrainingLayout out;
        std::int64_t next = 0;
        bool is_countable = true;
        auto const take = [&](std::int64_t elements) {
            auto const begin = next;
            auto const end = checked_add(next, elements);
            is_countable = is_countable && elements > 0 && end && *end < most_elements;
            if (is_countable) next = round_up(*end, alignment);
            return begin;
        };
        std::vector<std::pair<std::string, std::int64_t>> others;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter()) return;
            auto const elements = tensor.shape.checked_elements();
            is_countable = is_countable && elements;
            if (!is_countable) return;
            for (auto const& tie : model.tree.ties()) {
                if (tie.other == name) return others.emplace_back(name, *elements), void();
            }
            out.numbers_.emplace(name, out.parameters_.size());
            out.parameters_.push_back({std::string(name), &tensor, take(*elements), *elements});
        });
        out.weight_elements_ = next;
        for (auto const& [name, elements] : others) {
            for (auto const& tie : model.tree.ties()) {
                auto const first = tie.other == name ? out.numbers_.find(std::string(tie.first)) : out.numbers_.end();
                if (first == out.numbers_.end()) continue;
                out.tie_numbers_.emplace(name, out.ties_.size());
                out.ties_.push_back({take(elements), first->second});
                break;
            }
        }
        out.gradient_elements_ = next;
        if (!is_countable) return Error{ErrorCode::size_overflow}.in("training").at("parameters");
        return Result<TrainingLayout>(std::move(out));
    }

    [[nodiscard]] std::vector<TrainingParameter> const& parameters() const { return parameters_; }
    [[nodiscard]] std::vector<Tie> const& ties() const { return ties_; }
    /// The number of a parameter; of tied names that of the first.
    [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const {
        if (auto const found = numbers_.find(std::string(name)); found != numbers_.end()) return found->second;
        auto const tie = tie_numbers_.find(std::string(name));
        return tie == tie_numbers_.end() ? std::nullopt : std::optional(ties_[tie->second].parameter);
    }
    /// Where the gradient of a name begins: of a tied one its own place.
    [[nodiscard]] std::int64_t gradient_begin(std::string_view name) const {
        if (auto const tie = tie_numbers_.find(std::string(name)); tie != tie_numbers_.end())
            return ties_[tie->second].begin;
        return parameters_[numbers_.find(std::string(name))->second].begin;
    }
    /// The number of that gradient among those of parameters and, after them, of ties.
    [[nodiscard]] std::size_t gradient_number(std::string_view name) const {
        if (auto const tie = tie_numbers_.find(std::string(name)); tie != tie_numbers_.end())
            return parameters_.size() + tie->second;
        return numbers_.find(std::string(name))->second;
    }
    /// Of all weights, and of all gradients, gaps included.
    [[nodiscard]] std::int64_t weight_elements() const { return weight_elements_; }
    [[nodiscard]] std::int64_t gradient_elements() const { return gradient_elements_; }

    static constexpr std::int64_t alignment = 16;

private:
    static constexpr std::int64_t most_elements = std::int64_t{1} << 48U;

    std::vector<TrainingParameter> parameters_;
    std::vector<Tie> ties_;
    std::map<std::string, std::size_t> numbers_;
    std::map<std::string, std::size_t> tie_numbers_;
    std::int64_t weight_elements_ = 0;
    std::int64_t gradient_elements_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
