#pragma once

#include <shardwise/model/config.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline v0 {

/// The type that a config.json field has.
enum class FieldType : std::uint8_t { integer, flag, real, activation };

/// What the reader does with a field: may it be absent, may it be null or zero.
enum class FieldRule : std::uint8_t {
    positive,  // at least 1
    natural,   // 0 is a value; null reads as 0 ("none")
    any,       // flags and reals
};

/// One row of a family's field table: a key of config.json, the member it fills, its default.
///
/// Source  defaults are transformers 4.57's of the family's configuration class (tests/golden/config_defaults.json)
struct Field {
    std::string_view key;
    FieldType type = FieldType::integer;
    FieldRule rule = FieldRule::positive;
    std::int64_t ModelConfig::*integer = nullptr;
    bool ModelConfig::*flag = nullptr;
    double ModelConfig::*real = nullptr;
    ActivationKind ModelConfig::*activation = nullptr;
    /// The value of an absent field: an integer, 0 or 1 of a flag, or the ActivationKind; reals use `real_default`.
    std::int64_t fallback = 0;
    double real_fallback = 0.0;
    bool is_required = false;
    /// Other spellings of the key (transformers' attribute_map; GGUF keys are in `gguf`).
    std::array<std::string_view, 2> aliases{};
    /// GGUF metadata key after "<arch>." ("embedding_length"); empty: GGUF does not store it.
    std::string_view gguf{};

    [[nodiscard]] constexpr Field named(std::string_view alias, std::string_view second = {}) const {
        auto copy = *this;
        copy.aliases = {alias, second};
        return copy;
    }
    [[nodiscard]] constexpr Field in_gguf(std::string_view gguf_key) const {
        auto copy = *this;
        copy.gguf = gguf_key;
        return copy;
    }
    /// Absent is an error that names the field.
    [[nodiscard]] constexpr Field required() const {
        auto copy = *this;
        copy.is_required = true;
        return copy;
    }
};

/// An integer of at least 1.
[[nodiscard]] constexpr Field positive_field(std::string_view key, std::int64_t ModelConfig::*member,
                                             std::int64_t fallback) {
    Field field{.key = key};
    field.integer = member;
    field.fallback = fallback;
    return field;
}
/// An integer of at least 0; null reads as 0.
[[nodiscard]] constexpr Field natural_field(std::string_view key, std::int64_t ModelConfig::*member,
                                            std::int64_t fallback) {
    auto field = positive_field(key, member, fallback);
    field.rule = FieldRule::natural;
    return field;
}
[[nodiscard]] constexpr Field flag_field(std::string_view key, bool ModelConfig::*member, bool fallback) {
    Field field{.key = key, .type = FieldType::flag, .rule = FieldRule::any};
    field.flag = member;
    field.fallback = fallback ? 1 : 0;
    return field;
}
[[nodiscard]] constexpr Field real_field(std::string_view key, double ModelConfig::*member, double fallback) {
    Field field{.key = key, .type = FieldType::real, .rule = FieldRule::any};
    field.real = member;
    field.real_fallback = fallback;
    return field;
}
[[nodiscard]] constexpr Field activation_field(std::string_view key, ActivationKind fallback) {
    Field field{.key = key, .type = FieldType::activation, .rule = FieldRule::any};
    field.activation = &ModelConfig::activation;
    field.fallback = static_cast<std::int64_t>(fallback);
    return field;
}

/// A name in a checkpoint file and the name(s) in the tree: `{}` stands for one number on both sides, `*` (tree side only)
/// for every expert: one stacked file tensor covers them all.
struct NameAlias {
    std::string_view file;
    std::string_view tree;
};

}  // namespace shardwise::inline v0
