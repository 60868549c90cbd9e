// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/family.hpp>
#include <shardwise/model/files/gguf_metadata.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A number of the model that a GGUF file has in its metadata instead of in a tensor, under the tensor's name in the model.
struct GgufNumber {
    std::string name;
    float value = 0.0F;
};

/// The numbers of every layer that the family's `gguf_numbers` names: a list over layers, or one number for all of them, as
/// llama.cpp reads them. A key that the file lacks gives none.
///
/// Errors  invalid_field with the key, for what is neither
/// Source  llama.cpp 0c1e570, src/llama-model-loader.cpp (get_key_or_arr)
[[nodiscard]] inline Result<std::vector<GgufNumber>> read_gguf_numbers(GgufMetadata const& metadata, Family const* family,
                                                                       std::int64_t layers, std::string_view path) {
    std::vector<GgufNumber> out;
    auto const count = static_cast<std::size_t>(layers > 0 ? layers : 0);
    if (family == nullptr) return out;
    for (auto const& row : family->gguf_numbers) {
        auto const value = metadata.find(row.file);
        if (!value) continue;
        auto numbers = metadata.reals(*value, count);
        if (width_of(value->type) > 0) numbers.assign(count, value->real);
        bool is_whole = numbers.size() == count && (value->type != GgufValueType::array || value->count == count);
        for (auto const number : numbers) is_whole = is_whole && std::isfinite(number);
        if (!is_whole) {
            return Error{ErrorCode::invalid_field}
                .in(path)
                .at(row.file)
                .because("must be a number, or one for each layer");
        }
        auto const hole = row.tree.find("{}");
        for (std::size_t layer = 0; layer < count; ++layer) {
            auto name = std::string(row.tree);
            name.replace(hole, 2, std::to_string(layer));
            out.push_back({std::move(name), static_cast<float>(numbers[layer])});
        }
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
