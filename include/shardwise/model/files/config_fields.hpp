// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/activation_names.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/field.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The largest size that a configuration may state: products of two stay far inside 63 bits, and no model comes near.
inline constexpr std::int64_t max_config_size = std::int64_t{1} << 28U;

[[nodiscard]] constexpr std::string_view name_of(JsonKind kind) {
    switch (kind) {
        case JsonKind::null:
            return "null";
        case JsonKind::boolean:
            return "true or false";
        case JsonKind::integer:
        case JsonKind::unsigned_integer:
            return "an integer";
        case JsonKind::real:
            return "a fraction, has an exponent or leaves 64 bits";
        case JsonKind::string:
            return "a string";
        case JsonKind::array:
            return "a list";
        case JsonKind::object:
            return "an object";
    }
    return "unknown";
}

/// Reads the members of one object of a configuration; errors name the file and the field.
class ConfigObject {
public:
    /// `path` comes before the keys in errors ("text_config."). Both outlive this.
    ConfigObject(JsonValue object, std::string_view file, std::string_view path)
        : object_(object), file_(file), path_(path) {}

    [[nodiscard]] JsonValue value() const { return object_; }
    [[nodiscard]] std::string_view file() const { return file_; }
    [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const { return object_.find(key); }
    /// The member, where it is there and not null.
    [[nodiscard]] std::optional<JsonValue> find_set(std::string_view key) const {
        auto const found = object_.find(key);
        return found && !found->is_null() ? found : std::nullopt;
    }

    [[nodiscard]] Error error(ErrorCode code, std::string_view key, std::string_view reason) const {
        return Error{code}.in(file_).at(std::string(path_) + std::string(key)).because(reason);
    }
    [[nodiscard]] Error wrong_type(std::string_view key, JsonValue found, std::string_view wanted) const {
        return error(ErrorCode::invalid_field, key,
                     "must be " + std::string(wanted) + ", but is " + std::string(name_of(found.kind())));
    }

    /// An integer from `least` to max_config_size.
    [[nodiscard]] Result<std::int64_t> integer(std::string_view key, JsonValue found, std::int64_t least) const {
        if (found.kind() == JsonKind::unsigned_integer) return too_large(key, INT64_MAX);
        auto const value = found.integer();
        if (!value) return wrong_type(key, found, "an integer");
        if (*value < least) {
            return error(ErrorCode::invalid_field, key, "must be at least " + std::to_string(least)).got(*value);
        }
        if (*value > max_config_size) return too_large(key, *value);
        return *value;
    }
    [[nodiscard]] Result<double> real(std::string_view key, JsonValue found) const {
        if (auto const value = found.real()) return *value;
        return wrong_type(key, found, "a number");
    }
    [[nodiscard]] Result<bool> flag(std::string_view key, JsonValue found) const {
        if (auto const value = found.boolean()) return *value;
        // Python takes integers for flags, too: llama4's attn_temperature_tuning was 4.
        if (auto const value = found.integer()) return *value != 0;
        return wrong_type(key, found, "true or false");
    }
    [[nodiscard]] Result<std::string_view> string(std::string_view key, JsonValue found) const {
        if (auto const value = found.string()) return *value;
        return wrong_type(key, found, "a string");
    }

    /// Fills a configuration from the rows of the family's table, in transformers' order: keys and defaults, then what is
    /// derived from them, then aliases and attributes, which win over keys (tests/golden/alias_configs.jsonl).
    ///
    /// Errors  invalid_field, missing_field, size_overflow, unsupported
    [[nodiscard]] Result<> read(std::span<Field const> fields, ModelConfig& config) const {
        for (auto const& field : fields) {
            if (field.is_attribute) continue;
            if (auto const done = read_key(field, config); !done) return done;
        }
        derive_absent(fields, config);
        for (auto const& field : fields) {
            if (auto const done = read_late(field, config); !done) return done;
        }
        return {};
    }

private:
    [[nodiscard]] bool has_alias(Field const& field) const {
        return std::any_of(field.aliases.begin(), field.aliases.end(),
                           [&](std::string_view alias) { return !alias.empty() && find(alias); });
    }
    [[nodiscard]] Result<> read_key(Field const& field, ModelConfig& config) const {
        auto const found = find(field.key);
        if (found && !(found->is_null() && field.is_required)) return read_value(field, field.key, *found, config);
        if (field.is_required && !has_alias(field))
            return error(ErrorCode::missing_field, field.key, "is needed and has no default");
        field.store_default(config);
        return {};
    }
    [[nodiscard]] Result<> read_late(Field const& field, ModelConfig& config) const {
        if (field.is_attribute) {
            auto const found = find(field.key);
            return found ? read_value(field, field.key, *found, config) : Result<>{};
        }
        for (auto const alias : field.aliases) {
            if (alias.empty()) continue;
            auto const found = find(alias);
            if (!found || (found->is_null() && field.is_null_alias_absent)) continue;
            if (auto const done = read_value(field, alias, *found, config); !done) return done;
        }
        return {};
    }
    [[nodiscard]] Result<> read_value(Field const& field, std::string_view key, JsonValue found,
                                      ModelConfig& config) const {
        switch (field.type) {
            case FieldType::integer:
                return read_integer(field, key, found, config);
            case FieldType::flag: {
                auto const value = found.is_null() ? Result<bool>{false} : flag(key, found);
                if (!value) return value.error();
                field.store_number(config, *value ? 1 : 0);
                return {};
            }
            case FieldType::real: {
                auto const value = found.is_null() ? Result<double>{0.0} : real(key, found);
                if (!value) return value.error();
                auto const refusal = found.is_null() ? std::string_view{} : field.refusal_of(*value);
                if (!refusal.empty()) return error(ErrorCode::invalid_field, key, refusal);
                field.store(config, *value);
                return {};
            }
            case FieldType::activation:
                return read_activation(field, key, found, config);
            case FieldType::choice:
                return read_choice(field, key, found, config);
            case FieldType::refused: {
                auto const value = found.is_null() ? Result<bool>{false} : flag(key, found);
                if (!value) return value.error();
                if (*value) return error(ErrorCode::unsupported, key, field.refusal);
                return {};
            }
            case FieldType::version: {
                auto const text = found.string().value_or("");
                std::int64_t number = 0;
                (void)std::from_chars(text.data(), text.data() + text.size(), number);
                field.store_number(config, number);
                return {};
            }
        }
        return {};
    }
    [[nodiscard]] Error too_large(std::string_view key, std::int64_t value) const {
        return error(ErrorCode::size_overflow, key, "is larger than a model can have")
            .got(value)
            .at_most(max_config_size);
    }
    [[nodiscard]] Result<> read_integer(Field const& field, std::string_view key, JsonValue found,
                                        ModelConfig& config) const {
        if (found.is_null()) {
            if (field.rule == FieldRule::positive) return wrong_type(key, found, "an integer of at least 1");
            field.store_number(config, 0);
            return {};
        }
        if (field.has_letters && found.is_string()) {
            auto const letters = string(key, found);
            if (!letters) return letters.error();
            if (letters->find_first_not_of('L') + 1 != letters->size() || letters->back() != 'G')
                return error(ErrorCode::unsupported, key, "is not a G after any number of L");
            field.store_number(config, static_cast<std::int64_t>(letters->size()));
            return {};
        }
        bool const may_be_zero = field.rule == FieldRule::natural || field.rule == FieldRule::any;
        auto const value = integer(key, found, may_be_zero ? 0 : 1);
        if (!value) return value.error();
        field.store_number(config, *value);
        return {};
    }
    [[nodiscard]] Result<> read_activation(Field const& field, std::string_view key, JsonValue found,
                                           ModelConfig& config) const {
        // gemma publishes "hidden_activation": null, which means the default.
        if (found.is_null()) {
            if (!field.is_attribute) field.store_default(config);
            return {};
        }
        auto const text = string(key, found);
        if (!text) return text.error();
        constexpr std::string_view gated = "gated-";
        bool const is_gated = !field.gate.empty() && text->substr(0, gated.size()) == gated;
        auto const name = is_gated ? text->substr(gated.size()) : *text;
        auto const kind = is_gated && name == "gelu" ? ActivationKind::gelu_new : parse_activation(name);
        if (!kind) {
            return error(ErrorCode::unsupported, key, "\"" + std::string(*text) + "\" is not a known activation");
        }
        config.*field.activation = *kind;
        // A family may have a gate where no word says so (mt5).
        if (!field.gate.empty()) config.own.set(field.gate, is_gated ? 1 : 0);
        return {};
    }
    [[nodiscard]] Result<> read_choice(Field const& field, std::string_view key, JsonValue found,
                                       ModelConfig& config) const {
        if (found.is_null()) return field.store_default(config), Result<>{};
        auto const text = string(key, found);
        if (!text) return text.error();
        std::string known;
        for (std::size_t i = 0; i < field.choices.size(); ++i) {
            if (field.choices[i].empty()) continue;
            if (field.choices[i] == *text) {
                field.store_number(config, static_cast<std::int64_t>(i));
                return {};
            }
            known += (known.empty() ? "" : ", ") + std::string(field.choices[i]);
        }
        return error(ErrorCode::invalid_field, key, "\"" + std::string(*text) + "\" is not one of " + known);
    }

    JsonValue object_;
    std::string_view file_;
    std::string_view path_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
