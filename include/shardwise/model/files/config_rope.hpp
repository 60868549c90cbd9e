// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/files/config_fields.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A real member of a rope dictionary and where it goes.
struct RopeMember {
    std::string_view key;
    double RopeParameters::*member;
    /// 0 means that the others tell it.
    bool may_be_zero = false;
};

inline constexpr std::array<RopeMember, 13> rope_members{
    {{"rope_theta", &RopeParameters::theta},
     {"factor", &RopeParameters::factor},
     {"alpha", &RopeParameters::alpha, true},
     {"low_freq_factor", &RopeParameters::low_frequency_factor},
     {"high_freq_factor", &RopeParameters::high_frequency_factor},
     {"attention_factor", &RopeParameters::attention_factor},
     {"beta_fast", &RopeParameters::beta_fast, true},
     {"beta_slow", &RopeParameters::beta_slow, true},
     {"mscale", &RopeParameters::mscale, true},
     {"mscale_all_dim", &RopeParameters::mscale_all_dim, true},
     {"short_mscale", &RopeParameters::short_mscale, true},
     {"long_mscale", &RopeParameters::long_mscale, true},
     {"partial_rotary_factor", &RopeParameters::partial_rotary_factor}}};

/// The method that `rope_type` (or the older `type`) names.
[[nodiscard]] constexpr std::optional<RopeKind> parse_rope_kind(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, RopeKind>, 8> kinds{{{"default", RopeKind::standard},
                                                                          // Of text alone all axes are one.
                                                                          {"mrope", RopeKind::standard},
                                                                          {"linear", RopeKind::linear},
                                                                          {"dynamic", RopeKind::dynamic},
                                                                          {"llama3", RopeKind::llama3},
                                                                          {"yarn", RopeKind::yarn},
                                                                          {"longrope", RopeKind::longrope},
                                                                          {"su", RopeKind::longrope}}};
    for (auto const& kind : kinds) {
        if (kind.first == name) return kind.second;
    }
    return std::nullopt;
}

/// Reads one dictionary of `rope_scaling` or `rope_parameters`. A method that is not known is a warning: sizes do not
/// depend on it.
[[nodiscard]] inline Result<> read_rope(ConfigObject const& object, RopeParameters& rope,
                                        std::vector<std::string>& warnings) {
    auto const newer = object.find_set("rope_type");
    auto const type = newer ? newer : object.find_set("type");
    if (type) {
        auto const name = object.string(newer ? "rope_type" : "type", *type);
        if (!name) return name.error();
        auto const kind = parse_rope_kind(*name);
        if (!kind) {
            warnings.push_back(std::string(object.file()) + ": rope type \"" + escaped(*name) +
                               "\" is not known; sizes do not depend on it");
        }
        rope.kind = kind.value_or(RopeKind::unknown);
    }
    for (auto const& row : rope_members) {
        auto const found = object.find_set(row.key);
        if (!found) continue;
        auto const value = object.real(row.key, *found);
        if (!value) return value.error();
        if (!(row.may_be_zero ? *value >= 0.0 : *value > 0.0))
            return object.error(ErrorCode::invalid_field, row.key,
                                row.may_be_zero ? "must be at least 0" : "must be above 0");
        rope.*row.member = *value;
        rope.has_factor = rope.has_factor || row.key == "factor";
    }
    if (auto const found = object.find_set("truncate")) {
        auto const value = object.flag("truncate", *found);
        if (!value) return value.error();
        rope.truncates = *value;
    }
    if (auto const found = object.find_set("original_max_position_embeddings")) {
        auto const value = object.integer("original_max_position_embeddings", *found, 0);
        if (!value) return value.error();
        rope.original_max_positions = *value;
    }
    return {};
}

/// Reads both dialects: `rope_scaling`, and transformers 5's `rope_parameters`, which may differ by layer type.
[[nodiscard]] inline Result<> read_rope_fields(ConfigObject const& config, RopeParameters& rope,
                                               std::vector<std::string>& warnings) {
    for (std::string_view const key : {"rope_scaling", "rope_parameters"}) {
        auto const found = config.find_set(key);
        // A null is an answer too: no method, where the family has one by default.
        rope.is_given = rope.is_given || config.find(key).has_value();
        if (!found) continue;
        if (!found->is_object()) return config.wrong_type(key, *found, "an object");
        auto const full = found->find("full_attention");
        auto const sliding = found->find("sliding_attention");
        if (full && full->is_object()) {
            ConfigObject const part(*full, config.file(), "rope_parameters.full_attention.");
            if (auto const read = read_rope(part, rope, warnings); !read) return read;
        } else {
            ConfigObject const part(*found, config.file(),
                                    key == "rope_scaling" ? "rope_scaling." : "rope_parameters.");
            if (auto const read = read_rope(part, rope, warnings); !read) return read;
        }
        if (sliding && sliding->is_object()) {
            RopeParameters local = rope;
            ConfigObject const part(*sliding, config.file(), "rope_parameters.sliding_attention.");
            if (auto const read = read_rope(part, local, warnings); !read) return read;
            rope.local_theta = local.theta;
        }
    }
    // What stands beside the dictionary counts (phi3), as in transformers 5.
    auto const beside = config.find_set("original_max_position_embeddings");
    bool const has_original =
        rope.kind == RopeKind::longrope || rope.kind == RopeKind::yarn || rope.kind == RopeKind::llama3;
    if (auto const& found = beside; found && has_original) {
        auto const value = config.integer("original_max_position_embeddings", *found, 0);
        if (!value) return value.error();
        rope.original_max_positions = *value;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
