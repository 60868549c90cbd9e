// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "temporary_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::testing {

/// A tensor to be written: name, safetensors dtype, shape, bytes.
struct WrittenTensor {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::int64_t bytes;
};

/// Writes a safetensors file whose data are a hole: they take no room, whatever the shapes.
inline void write_safetensors(std::string const& path, std::vector<WrittenTensor> const& tensors) {
    std::string json = "{";
    std::int64_t end = 0;
    for (auto const& tensor : tensors) {
        if (json.size() > 1) json += ',';
        json += '"' + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
        for (std::size_t i = 0; i < tensor.shape.size(); ++i)
            json += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
        json += "],\"data_offsets\":[" + std::to_string(end) + "," + std::to_string(end + tensor.bytes) + "]}";
        end += tensor.bytes;
    }
    json += '}';
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i)
        length[i] = static_cast<char>(static_cast<unsigned char>(json.size() >> (8 * i)));
    std::ofstream(path, std::ios::binary) << length << json;
    std::filesystem::resize_file(path, 8 + json.size() + static_cast<std::uintmax_t>(end));
}

}  // namespace shardwise::testing
