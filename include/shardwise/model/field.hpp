// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/literal.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The type that a config.json field has.
enum class FieldType : std::uint8_t {
    integer,
    flag,
    real,
    activation,
    choice,   // one of `choices`, stored as its index in the integer member
    refused,  // a flag that must be false or absent; it fills no member
    version,  // "5.24.0": the number before the first dot, an integer of the family's own
};

/// What the reader does with a field: may it be absent, may it be null or zero.
enum class FieldRule : std::uint8_t {
    positive,  // at least 1; null is an error
    natural,   // 0 is a value; null reads as 0 ("none")
    optional,  // at least 1; null reads as 0 ("derive it")
    any,       // flags and reals; null reads as 0
};

/// One row of a family's field table: a key of config.json, the member it fills, its default. A number, choice or flag without a
/// member is the family's own: it fills ModelConfig::own under its key.
///
/// Source  defaults are transformers 4.57's of the family's configuration class (tests/golden/config_defaults.json)
struct Field {
    std::string_view key;
    FieldType type = FieldType::integer;
    FieldRule rule = FieldRule::positive;
    std::int64_t ModelConfig::*integer = nullptr;
    bool ModelConfig::*flag = nullptr;
    double ModelConfig::*real = nullptr;
    /// Set instead of `real` where the value belongs to config.rope.
    double RopeParameters::*rope = nullptr;
    ActivationKind ModelConfig::*activation = nullptr;
    /// The value of an absent field: an integer, 0 or 1 of a flag, or the ActivationKind; reals use `real_default`.
    std::int64_t fallback = 0;
    double real_fallback = 0.0;
    bool is_required = false;
    /// Other spellings of the key (transformers' attribute_map; GGUF keys are in `gguf`). Their value is set after absent
    /// members were derived from the keys, and wins over the key's.
    std::array<std::string_view, 2> aliases{};
    /// An alias that is null is as if absent (transformers' classes that take a former name out of their arguments).
    bool is_null_alias_absent = false;
    /// No argument of the constructor: set after it as an alias is, and absent it leaves what other rows say.
    bool is_attribute = false;
    /// Of an activation: the family's own flag that is set where the word begins with "gated-"; empty: no word does.
    std::string_view gate{};
    /// Why a refused flag is not described.
    std::string_view refusal{};
    /// The member that an absent value is derived from, times `source_factor`; null: the default stays.
    std::int64_t ModelConfig::*source = nullptr;
    std::int64_t source_factor = 1;
    /// The words of a choice, in the order of their values; they outlive the row.
    Span<std::string_view const> choices{};
    /// Of an integer: may also be letters, L for each layer before the one that is G ("LLLG" is 4).
    bool has_letters = false;
    /// GGUF metadata key after "<arch>." ("embedding_length"); empty: GGUF does not store it.
    std::string_view gguf{};
    /// GGUF metadata without the key means 0, not the default (writers leave out what is null).
    bool is_zero_in_gguf = false;

    [[nodiscard]] constexpr bool is_own() const {
        bool const is_number = type == FieldType::integer || type == FieldType::choice || type == FieldType::real ||
                               type == FieldType::version;
        return (is_number || type == FieldType::flag) && integer == nullptr && flag == nullptr && real == nullptr &&
               rope == nullptr;
    }
    /// The value of an integer, a choice or a flag; of the family's own the default where nobody set it.
    [[nodiscard]] constexpr std::int64_t number_of(ModelConfig const& config) const {
        if (is_own()) return config.own.has(key) ? config.own[key] : fallback;
        return type == FieldType::flag ? (config.*flag ? 1 : 0) : config.*integer;
    }
    /// Stores it.
    constexpr void store_number(ModelConfig& config, std::int64_t value) const {
        if (is_own())
            config.own.set(key, value);
        else if (type == FieldType::flag)
            config.*flag = value != 0;
        else
            config.*integer = value;
    }
    /// The value of a real; of the family's own the default where nobody set it.
    [[nodiscard]] constexpr double real_of(ModelConfig const& config) const {
        if (is_own()) return config.own.has(key) ? config.own.real(key) : real_fallback;
        return rope != nullptr ? config.rope.*rope : config.*real;
    }
    /// Stores the value of a real field.
    constexpr void store(ModelConfig& config, double value) const {
        if (is_own())
            config.own.set_real(key, value);
        else if (rope != nullptr)
            config.rope.*rope = value;
        else
            config.*real = value;
    }
    /// Stores the value of an absent field.
    constexpr void store_default(ModelConfig& config) const {
        switch (type) {
            case FieldType::integer:
            case FieldType::choice:
            case FieldType::flag:
            case FieldType::version:
                store_number(config, fallback);
                break;
            case FieldType::real:
                store(config, real_fallback);
                break;
            case FieldType::activation:
                config.*activation = static_cast<ActivationKind>(fallback);
                break;
            case FieldType::refused:
                break;
        }
    }

    [[nodiscard]] constexpr Field named(Literal alias, Literal second = {}) const {
        auto copy = *this;
        copy.aliases = {alias, second};
        return copy;
    }
    /// Why a number cannot be this real's; empty where it can.
    [[nodiscard]] constexpr std::string_view refusal_of(double value) const {
        if (rope != nullptr && !(value > 0.0)) return "must be above 0";
        if (real != nullptr && real == &ModelConfig::norm_epsilon && !(value >= 0.0)) return "must be at least 0";
        return {};
    }
    /// `alias` is a former name of the key: as `named`, but null is as if absent.
    [[nodiscard]] constexpr Field formerly(Literal alias) const {
        auto copy = named(alias);
        copy.is_null_alias_absent = true;
        return copy;
    }
    /// Absent or null is `factor` times another member, as that member's own key or default has it: a source that is
    /// given under an alias does not count.
    [[nodiscard]] constexpr Field derived_from(std::int64_t ModelConfig::*member, std::int64_t factor = 1) const {
        auto copy = *this;
        copy.source = member;
        copy.source_factor = factor;
        return copy;
    }
    /// transformers sets the key after the constructor: absent it leaves what other rows say.
    [[nodiscard]] constexpr Field attribute() const {
        auto copy = *this;
        copy.is_attribute = true;
        return copy;
    }
    /// A number or flag whose absent value is -1, which `complete` replaces.
    [[nodiscard]] constexpr Field completed() const {
        auto copy = *this;
        copy.fallback = -1;
        return copy;
    }
    /// A word may begin with "gated-", which sets the family's own flag.
    [[nodiscard]] constexpr Field gating(Literal flag_key) const {
        auto copy = *this;
        copy.gate = flag_key;
        return copy;
    }
    [[nodiscard]] constexpr Field in_gguf(Literal gguf_key) const {
        auto copy = *this;
        copy.gguf = gguf_key;
        return copy;
    }
    /// Absent from GGUF metadata is 0.
    [[nodiscard]] constexpr Field zero_in_gguf() const {
        auto copy = *this;
        copy.is_zero_in_gguf = true;
        return copy;
    }
    /// May be letters of layers instead.
    [[nodiscard]] constexpr Field or_letters() const {
        auto copy = *this;
        copy.has_letters = true;
        return copy;
    }
    /// Absent is an error that names the field.
    [[nodiscard]] constexpr Field required() const {
        auto copy = *this;
        copy.is_required = true;
        return copy;
    }
};

/// An integer that may be what the rule says.
[[nodiscard]] constexpr Field integer_field(Literal key, std::int64_t ModelConfig::*member, std::int64_t fallback,
                                            FieldRule rule) {
    Field field{.key = key, .rule = rule};
    field.integer = member;
    field.fallback = fallback;
    return field;
}
/// An integer of at least 1.
[[nodiscard]] constexpr Field positive_field(Literal key, std::int64_t ModelConfig::*member, std::int64_t fallback) {
    return integer_field(key, member, fallback, FieldRule::positive);
}
/// An integer of at least 0; null reads as 0.
[[nodiscard]] constexpr Field natural_field(Literal key, std::int64_t ModelConfig::*member, std::int64_t fallback) {
    return integer_field(key, member, fallback, FieldRule::natural);
}
/// An integer of at least 1 that may be null: null reads as 0, and `complete` derives it.
[[nodiscard]] constexpr Field optional_field(Literal key, std::int64_t ModelConfig::*member, std::int64_t fallback) {
    return integer_field(key, member, fallback, FieldRule::optional);
}
[[nodiscard]] constexpr Field flag_field(Literal key, bool ModelConfig::*member, bool fallback) {
    Field field{.key = key, .type = FieldType::flag, .rule = FieldRule::any};
    field.flag = member;
    field.fallback = fallback ? 1 : 0;
    return field;
}
[[nodiscard]] constexpr Field real_field(Literal key, double ModelConfig::*member, double fallback) {
    Field field{.key = key, .type = FieldType::real, .rule = FieldRule::any};
    field.real = member;
    field.real_fallback = fallback;
    return field;
}
/// The same as the family's own.
[[nodiscard]] constexpr Field positive_field(Literal key, std::int64_t fallback) {
    return positive_field(key, nullptr, fallback);
}
[[nodiscard]] constexpr Field natural_field(Literal key, std::int64_t fallback) {
    return natural_field(key, nullptr, fallback);
}
[[nodiscard]] constexpr Field optional_field(Literal key, std::int64_t fallback) {
    return optional_field(key, nullptr, fallback);
}
[[nodiscard]] constexpr Field flag_field(Literal key, bool fallback) {
    return flag_field(key, nullptr, fallback);
}
[[nodiscard]] constexpr Field real_field(Literal key, double fallback) {
    return real_field(key, nullptr, fallback);
}
[[nodiscard]] constexpr Field version_field(Literal key) {
    return {.key = key, .type = FieldType::version, .rule = FieldRule::any};
}
/// One of a few words; the member takes the word's index, an absent field index 0.
[[nodiscard]] constexpr Field choice_field(Literal key, std::int64_t ModelConfig::*member,
                                           Span<std::string_view const> choices) {
    Field field{.key = key, .type = FieldType::choice, .rule = FieldRule::any};
    field.integer = member;
    field.choices = choices;
    return field;
}
[[nodiscard]] constexpr Field choice_field(Literal key, Span<std::string_view const> choices) {
    return choice_field(key, nullptr, choices);
}
/// A real of config.rope: rope_theta and its like, which one `rope_parameters` may hold too.
[[nodiscard]] constexpr Field rope_field(Literal key, double RopeParameters::*member, double fallback) {
    Field field{.key = key, .type = FieldType::real, .rule = FieldRule::any};
    field.rope = member;
    field.real_fallback = fallback;
    return field;
}
/// A flag that adds or removes weights which the family does not describe: true is an error that says `reason`.
[[nodiscard]] constexpr Field refused_flag(Literal key, Literal reason) {
    Field field{.key = key, .type = FieldType::refused, .rule = FieldRule::any};
    field.refusal = reason;
    return field;
}
[[nodiscard]] constexpr Field activation_field(Literal key, ActivationKind fallback) {
    Field field{.key = key, .type = FieldType::activation, .rule = FieldRule::any};
    field.activation = &ModelConfig::activation;
    field.fallback = static_cast<std::int64_t>(fallback);
    return field;
}

/// How many rows are the family's own.
[[nodiscard]] constexpr std::size_t count_own(Span<Field const> fields) {
    std::size_t count = 0;
    for (auto const& field : fields) count += field.is_own() ? 1U : 0U;
    return count;
}

/// Gives the family's own numbers that nobody set their defaults.
constexpr void set_own_defaults(Span<Field const> fields, ModelConfig& config) {
    for (auto const& field : fields) {
        if (field.is_own() && !config.own.has(field.key)) field.store_default(config);
    }
}

/// Fills the members that are still 0 and that their rows derive from other members.
constexpr void derive_absent(Span<Field const> fields, ModelConfig& config) {
    for (auto const& field : fields) {
        if (field.source != nullptr && field.number_of(config) == 0)
            field.store_number(config, field.source_factor * config.*field.source);
    }
}

/// A name in a checkpoint file and the name(s) in the tree: `{}` stands for one number on both sides, `*` (tree side only)
/// for every expert: one stacked file tensor covers them all. Several file names with one tree name are parts of one
/// parameter (packed blocks and their scales; gate and up of a fused weight): their bytes add up.
struct NameAlias {
    std::string_view file;
    std::string_view tree;

    constexpr NameAlias() = default;
    constexpr NameAlias(Literal file_name, Literal tree_name) : file(file_name), tree(tree_name) {}
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
