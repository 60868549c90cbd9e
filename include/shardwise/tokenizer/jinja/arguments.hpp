// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/run_state.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// What a call hands over.
struct JinjaArguments {
    std::vector<JinjaValue> values;
    std::vector<std::pair<std::string, JinjaValue>> named;

    /// The named argument; nothing where it was not given.
    [[nodiscard]] JinjaValue const* find(std::string_view name) const {
        for (auto const& [key, value] : named)
            if (key == name) return &value;
        return nullptr;
    }
};

/// Arguments in the order of a function's parameters; nothing stands for those that were not given.
class JinjaBound {
public:
    /// Errors  wrong for arguments that the function does not take
    JinjaBound(JinjaRunState& run, std::string_view function, JinjaArguments const& arguments,
               std::initializer_list<std::string_view> parameters)
        : values_(parameters.size(), nullptr) {
        if (arguments.values.size() > parameters.size()) {
            run.wrong(std::string(function) + " takes at most " + std::to_string(parameters.size()) + " arguments");
            return;
        }
        for (std::size_t i = 0; i < arguments.values.size(); ++i) values_[i] = &arguments.values[i];
        for (auto const& [name, value] : arguments.named) {
            std::size_t i = 0;
            while (i < parameters.size() && parameters.begin()[i] != name) ++i;
            if (i == parameters.size() || values_[i]) {
                run.wrong(std::string(function) + " does not take the argument " + name);
                return;
            }
            values_[i] = &value;
        }
    }

    [[nodiscard]] JinjaValue const* operator[](std::size_t i) const { return values_[i]; }
    [[nodiscard]] bool flag(std::size_t i, bool otherwise = false) const {
        return values_[i] ? is_true(*values_[i]) : otherwise;
    }
    /// The int at a place.
    ///
    /// Errors  wrong where it is another value
    [[nodiscard]] std::int64_t integer(JinjaRunState& run, std::size_t i, std::int64_t otherwise) const {
        if (!values_[i]) return otherwise;
        if (!values_[i]->is_integer())
            run.wrong("an argument is a " + std::string(type_name(values_[i]->kind())) + " instead of an int");
        return values_[i]->integer();
    }
    /// The text at a place.
    ///
    /// Errors  wrong where it is another value
    [[nodiscard]] std::string_view text(JinjaRunState& run, std::size_t i, std::string_view otherwise = {}) const {
        if (!values_[i]) return otherwise;
        if (!values_[i]->is_string())
            run.wrong("an argument is a " + std::string(type_name(values_[i]->kind())) + " instead of a str");
        return values_[i]->is_string() ? values_[i]->text() : std::string_view{};
    }
    /// Whether all of the first `count` were given.
    ///
    /// Errors  wrong where one is missing
    bool needs(JinjaRunState& run, std::string_view function, std::size_t count) const {
        for (std::size_t i = 0; i < count; ++i)
            if (!values_[i]) run.wrong(std::string(function) + " needs " + std::to_string(count) + " arguments");
        return !run.is_failed();
    }

private:
    std::vector<JinjaValue const*> values_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
