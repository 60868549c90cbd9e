// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/walk.hpp>

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
        /// The other name.
        std::string name;
        /// Of its gradient.
        std::int64_t begin = 0;
        /// The parameter to whose gradient it is added.
        std::size_t parameter = 0;
    };
    /// What a name stands for.
    struct Place {
        /// The number of its parameter; of tied names that of the first.
        std::size_t parameter = 0;
        /// The number of its gradient among those of parameters and, after them, of ties; and where that begins.
        std::size_t gradient = 0;
        std::int64_t gradient_begin = 0;
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
            is_countable = is_countable && elements > 0 && end && *end < max_elements;
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
            auto const begin = take(*elements);
            auto const number = out.parameters_.size();
            out.places_.emplace(name, Place{number, number, begin});
            out.parameters_.push_back({std::string(name), &tensor, begin, *elements});
        });
        out.weight_elements_ = next;
        for (auto const& [name, elements] : others) {
            for (auto const& tie : model.tree.ties()) {
                auto const first = tie.other == name ? out.places_.find(std::string(tie.first)) : out.places_.end();
                if (first == out.places_.end()) continue;
                auto const parameter = first->second.parameter;
                auto const begin = take(elements);
                out.places_.emplace(name, Place{parameter, out.parameters_.size() + out.ties_.size(), begin});
                out.ties_.push_back({name, begin, parameter});
                break;
            }
        }
        out.gradient_elements_ = next;
        if (!is_countable) return Error{ErrorCode::size_overflow}.in("training").at("parameters");
        return Result<TrainingLayout>(std::move(out));
    }

    [[nodiscard]] std::vector<TrainingParameter> const& parameters() const { return parameters_; }
    [[nodiscard]] std::vector<Tie> const& ties() const { return ties_; }
    [[nodiscard]] std::optional<Place> find(std::string_view name) const {
        auto const found = places_.find(name);
        return found == places_.end() ? std::nullopt : std::optional(found->second);
    }
    /// Of all weights, and of all gradients, gaps included.
    [[nodiscard]] std::int64_t weight_elements() const { return weight_elements_; }
    [[nodiscard]] std::int64_t gradient_elements() const { return gradient_elements_; }

    static constexpr std::int64_t alignment = 16;

private:
    static constexpr std::int64_t max_elements = std::int64_t{1} << 48U;

    std::vector<TrainingParameter> parameters_;
    std::vector<Tie> ties_;
    std::map<std::string, Place, std::less<>> places_;
    std::int64_t weight_elements_ = 0;
    std::int64_t gradient_elements_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
