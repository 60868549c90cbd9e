// SPDX-License-Identifier: Apache-2.0
#include "custom_map.hpp"

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/placement/max_memory.hpp>

#include <cstddef>

namespace shardwise::cli {

Result<List<MapEntry>> read_custom_map(std::string const& path) {
    auto const text = read_text_file(path, std::size_t{64} << 20U);
    if (!text) return text.error();
    auto const document = parse_json(*text);
    if (!document) {
        auto error = document.error();
        return error.in(path);
    }
    if (!document->root().is_object()) {
        return Error{ErrorCode::malformed_file}
            .in(path)
            .because("a device map is a JSON object")
            .fix(R"(write it like {"model.layers.0": 0, "": "cpu"})");
    }
    List<MapEntry> entries;
    for (auto const member : document->root()) {
        auto const number = member.integer();
        auto const word = number ? std::to_string(*number) : std::string(member.string().value_or(std::string_view{}));
        auto const device = parse_device_key(word);
        if (!device) {
            return Error{ErrorCode::unknown_name}
                .in(path)
                .at(member.key())
                .because(word.empty() ? "is mapped to neither a number nor a name"
                                      : "is mapped to \"" + word + "\", which is no device")
                .fix("write GPUs as 0 or \"cuda:0\", others as \"cpu\", \"disk\" or \"mps\"");
        }
        entries.push_back({std::string(member.key()), *device});
    }
    return entries;
}

}  // namespace shardwise::cli
