// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/placement/max_memory.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Reads `{"0": "10GiB", "1": 8000000000, "cpu": "30GB"}`: integers are bytes, texts have a unit (parse_memory_size).
///
/// No device at all is a budget too: everything then goes to disk.
///
/// Errors  malformed_file for what is no JSON object; unknown_name for another key; invalid_argument for another size
[[nodiscard]] inline Result<MaxMemory> parse_max_memory(std::string_view text) {
    auto const document = parse_json(text, {.depth = 4, .values = 4096, .text = std::size_t{1} << 16U});
    if (!document) return Error{document.error()}.in("max_memory");
    auto const root = document->root();
    if (!root.is_object()) {
        return Error{ErrorCode::malformed_file}
            .in("max_memory")
            .because("is no JSON object")
            .fix(R"(write it like {"0": "10GiB", "cpu": "30GB"})");
    }
    MaxMemory limits;
    for (auto const member : root) {
        Result<> added;
        bool const is_huge = member.kind() == JsonKind::unsigned_integer;
        if (auto const bytes = is_huge ? INT64_MAX : member.integer()) {
            auto const device = parse_device_key(member.key());
            added = check_memory_limit(Bytes{*bytes});
            if (added) added = device ? limits.add(*device, Bytes{*bytes}) : Result<>{device.error()};
        } else if (auto const size = member.string()) {
            added = limits.add(member.key(), *size);
        } else {
            added = Error{ErrorCode::invalid_argument}
                        .at(member.key())
                        .because("is neither a number of bytes nor a size with a unit");
        }
        if (!added) return Error{added.error()}.in("max_memory");
    }
    return limits;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
