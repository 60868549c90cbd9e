// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/model/files/config_fields.hpp>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A key that the family's configuration class has, in transformers 4 or 5, and that this library does not read although
/// it may change the model.
struct UnreadKey {
    /// model_type; empty: every family.
    std::string_view family;
    std::string_view key;
    /// The class's default, with which the model is the one that is described: a number, true, false or {} (nothing in it).
    std::string_view normal;
};

/// All such keys: of the keys of both versions' classes (tests/golden/versions/keys-*.json), those that no field table
/// has and that are not known to be harmless (harmless.json there). A test holds this list to those files.
inline constexpr std::array<UnreadKey, 5> unread_keys{{{"", "pruned_heads", "{}"},
                                                       {"bert", "is_decoder", "false"},
                                                       {"roberta", "is_decoder", "false"},
                                                       {"gpt_oss", "swiglu_alpha", "1.702"},
                                                       {"gpt_oss", "swiglu_limit", "7.0"}}};

/// True where a value is the default that `normal` spells, or null.
[[nodiscard]] inline bool is_normal(JsonValue value, std::string_view normal) {
    if (value.is_null()) return true;
    if (auto const flag = value.boolean()) return normal == (*flag ? "true" : "false");
    if (value.is_object() || value.is_array()) return normal == "{}" && value.empty();
    return value.real() && *value.real() == std::strtod(std::string(normal).c_str(), nullptr);
}

/// Warns of keys that may change the model and are not read.
inline void warn_of_unread_keys(ConfigObject const& object, std::string_view family,
                                std::vector<std::string>& warnings) {
    for (auto const& row : unread_keys) {
        if (!row.family.empty() && row.family != family) continue;
        auto const found = object.find(row.key);
        if (!found || is_normal(*found, row.normal)) continue;
        warnings.push_back(escaped(object.file()) + ": " + std::string(row.key) + " is not read: the model is described " +
                           (row.normal == "{}" ? "without it" : "with " + std::string(row.normal)));
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
