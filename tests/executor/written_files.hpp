// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

/// Files of tensors with their data, for tests of loading.
namespace shardwise::testing {

/// A tensor with its bytes; extents outermost first.
struct FileTensorData {
    std::string name;
    /// Of safetensors.
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
    /// Of GGUF.
    std::uint32_t type = 0;
};

template <class T>
[[nodiscard]] std::string bytes_of(std::vector<T> const& values) {
    return {reinterpret_cast<char const*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
void append_number(std::string& to, T value) {
    to.append(reinterpret_cast<char const*>(&value), sizeof value);
}

inline void write_tensors(std::string const& path, std::vector<FileTensorData> const& tensors) {
    std::string header = "{";
    std::string data;
    for (auto const& tensor : tensors) {
        header += header.size() > 1 ? "," : "";
        header += "\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
        for (std::size_t d = 0; d < tensor.shape.size(); ++d)
            header += (d > 0 ? "," : "") + std::to_string(tensor.shape[d]);
        header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
        data += tensor.bytes;
        header += std::to_string(data.size()) + "]}";
    }
    header += "}";
    std::string length;
    append_number(length, static_cast<std::uint64_t>(header.size()));
    std::ofstream(path, std::ios::binary) << length << header << data;
}

/// A GGUF file of version 3 whose metadata are whole numbers, texts and floats.
inline void write_gguf(std::string const& path, std::vector<FileTensorData> const& tensors,
                       std::vector<std::pair<std::string, std::uint16_t>> const& numbers = {},
                       std::vector<std::pair<std::string, std::string>> const& texts = {},
                       std::vector<std::pair<std::string, float>> const& reals = {}) {
    std::string head = "GGUF";
    append_number(head, std::uint32_t{3});
    append_number(head, static_cast<std::uint64_t>(tensors.size()));
    append_number(head, static_cast<std::uint64_t>(numbers.size() + texts.size() + reals.size()));
    auto const text = [&head](std::string_view value) {
        append_number(head, static_cast<std::uint64_t>(value.size()));
        head += value;
    };
    for (auto const& [key, value] : numbers) {
        text(key);
        append_number(head, std::uint32_t{2});  // a 16-bit number
        append_number(head, value);
    }
    for (auto const& [key, value] : texts) {
        text(key);
        append_number(head, std::uint32_t{8});  // a text
        text(value);
    }
    for (auto const& [key, value] : reals) {
        text(key);
        append_number(head, std::uint32_t{6});
        append_number(head, value);
    }
    constexpr std::size_t alignment = 32;
    std::string data;
    for (auto const& tensor : tensors) {
        text(tensor.name);
        append_number(head, static_cast<std::uint32_t>(tensor.shape.size()));
        for (auto d = tensor.shape.size(); d-- > 0;) append_number(head, tensor.shape[d]);
        append_number(head, tensor.type);
        append_number(head, static_cast<std::uint64_t>(data.size()));
        data += tensor.bytes;
        data.resize((data.size() + alignment - 1) / alignment * alignment);
    }
    head.resize((head.size() + alignment - 1) / alignment * alignment);
    std::ofstream(path, std::ios::binary) << head << data;
}

}  // namespace shardwise::testing
