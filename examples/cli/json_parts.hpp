// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_id.hpp>
#include <shardwise/json/writer.hpp>
#include <shardwise/placement/max_memory.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::cli {

/// A device as device maps write it: a number for GPUs, a word for the others.
inline void write_id(JsonWriter& json, DeviceId id) {
    if (id.kind == DeviceClass::gpu) {
        json.value(id.index);
    } else {
        json.value(device_key(id));
    }
}

/// A member that is null where there is no text.
inline void write_text(JsonWriter& json, std::string_view key, std::string_view text) {
    json.key(key);
    text.empty() ? json.value(nullptr) : json.value(text);
}

/// The tokens of a chunk of the prompts; null where they are computed whole.
inline void write_prefill_chunk(JsonWriter& json, std::int64_t tokens) {
    json.key("prefill_chunk");
    tokens > 0 ? json.value(tokens) : json.value(nullptr);
}

}  // namespace shardwise::cli
