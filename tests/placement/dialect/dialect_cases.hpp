// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>
#include <shardwise/model/files/tree_json.hpp>
#include <shardwise/placement/dialect/accelerate.hpp>
#include <shardwise/placement/dialect/transformers.hpp>

#include <string>
#include <string_view>
#include <vector>

/// The cases of tests/golden/accelerate, as the golden test and the driver of the scripts read them.
namespace dialect_cases {

using namespace shardwise;

/// What a golden line asks for; the names are views into its document.
struct Question {
    MaxMemory max_memory;
    AccelerateOptions accelerate;
    TransformersOptions transformers;
};

inline std::vector<std::string_view> texts(JsonValue list) {
    std::vector<std::string_view> out;
    for (auto const value : list) out.push_back(*value.string());
    return out;
}

inline bool flag(JsonValue options, std::string_view key, bool otherwise) {
    auto const value = options.find(key);
    return value ? *value->boolean() : otherwise;
}

inline Question read_question(JsonValue options) {
    Question question;
    if (auto const limits = options.find("max_memory")) {
        for (auto const limit : *limits) {
            (void)question.max_memory.add(*parse_device_key(limit.key()), Bytes{*limit.integer()});
        }
    }
    auto& accelerate = question.accelerate;
    auto& transformers = question.transformers;
    if (auto const strategy = options.find("strategy"))
        accelerate.strategy = *parse_dialect_strategy(*strategy->string());
    if (auto const dtype = options.find("dtype")) accelerate.dtype = parse_dtype(*dtype->string());
    if (auto const classes = options.find("no_split")) accelerate.no_split = texts(*classes);
    if (auto const special = options.find("special_dtypes")) {
        for (auto const entry : *special) {
            accelerate.special_dtypes.emplace_back(entry.key(), *parse_dtype(*entry.string()));
        }
    }
    accelerate.fallback_allocation = flag(options, "fallback", false);
    accelerate.offload_buffers = flag(options, "offload_buffers", false);
    accelerate.clean_result = flag(options, "clean_result", true);

    transformers.strategy = accelerate.strategy;
    transformers.dtype = accelerate.dtype;
    transformers.no_split = accelerate.no_split;
    if (auto const widths = options.find("element_bits")) {
        for (auto const entry : *widths) transformers.element_bits.emplace_back(entry.key(), *entry.integer());
    }
    if (auto const share = options.find("budget_share")) transformers.budget_share = *share->real();
    if (auto const reserved = options.find("unused_reserved")) {
        for (auto const entry : *reserved) {
            transformers.unused_reserved.push_back({*parse_device_key(entry.key()), Bytes{*entry.integer()}});
        }
    }
    return question;
}

/// Whether the map warns of offloaded buffers.
inline bool warns_of_buffers(DialectMap const& map) {
    for (auto const& warning : map.warnings) {
        if (warning.find("buffers of offloaded modules") != std::string::npos) return true;
    }
    return false;
}

}  // namespace dialect_cases
