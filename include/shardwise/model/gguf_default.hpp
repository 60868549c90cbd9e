// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/literal.hpp>
#include <shardwise/model/config.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The tensors of a GGUF file, for what a family infers of them: `infer_from_gguf(names, config)`, called after the
/// fields were read.
struct GgufTensorNames {
    void const* file;
    bool (*is_in)(void const* file, std::string_view name);
    std::int64_t (*rows_in)(void const* file, std::string_view name);

    [[nodiscard]] bool has(std::string_view name) const { return is_in(file, name); }
    /// Rows of a table; 0 where the file has none of this name.
    [[nodiscard]] std::int64_t rows_of(std::string_view name) const { return rows_in(file, name); }
    [[nodiscard]] bool has_in_layer(std::int64_t layer, std::string_view name) const {
        return has("blk." + std::to_string(layer) + "." + std::string(name));
    }
};

/// One row of a family's `gguf_defaults`: what llama.cpp takes for granted of a value that the family's GGUF files do not
/// state. Rows are applied in order, after the file's metadata and tensors were read.
struct GgufDefault {
    /// config.json's key of the value. Where the file states the GGUF key of that field, the row does nothing.
    std::string_view key;
    /// Stores the value.
    void (*set)(ModelConfig& config) = nullptr;
    /// The file, and the commit of llama.cpp or the publisher's document, that says so.
    std::string_view source;

    constexpr GgufDefault(Literal config_key, void (*setter)(ModelConfig&), Literal where)
        : key(config_key), set(setter), source(where) {}
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
