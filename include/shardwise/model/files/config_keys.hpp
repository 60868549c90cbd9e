// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/model/family.hpp>
#include <shardwise/model/files/config_fields.hpp>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keys of every family that are not read although they may change the model. Of the keys of both versions' classes
/// (tests/golden/versions/keys-*.json), those that no field table has and that are not known to be harmless (harmless.json
/// there) are here or in the family's own `unread_keys`. A test holds these lists to those files.
inline constexpr std::array<UnreadKey, 1> common_unread_keys{{{"pruned_heads", "{}"}}};

/// True where a value is the default that `normal` spells, or null.
[[nodiscard]] inline bool is_normal(JsonValue value, std::string_view normal) {
    if (value.is_null()) return true;
    if (auto const flag = value.boolean()) return normal == (*flag ? "true" : "false");
    if (auto const text = value.string()) return normal == '"' + std::string(*text) + '"';
    if (value.is_object() || value.is_array()) return normal == "{}" && value.empty();
    return value.real() && *value.real() == std::strtod(std::string(normal).c_str(), nullptr);
}

/// Warns of keys that may change the model and are not read.
inline void warn_of_unread_keys(ConfigObject const& object, Span<UnreadKey const> keys,
                                std::vector<std::string>& warnings) {
    for (auto const& row : keys) {
        auto const found = object.find(row.key);
        if (!found || is_normal(*found, row.normal)) continue;
        warnings.push_back(escaped(object.file()) + ": " + std::string(row.key) + " is not read: the model is described " +
                           (row.normal == "{}" ? "without it" : "with " + std::string(row.normal)));
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
