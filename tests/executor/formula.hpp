// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/walk.hpp>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

/// Models whose weights follow from their names, as scripts/golden/executor_logits.py makes them.
namespace shardwise::testing {

[[nodiscard]] inline std::uint64_t fnv1a(std::string_view name) {
    std::uint64_t value = 0xCBF29CE484222325U;
    for (auto const letter : name) value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
    return value;
}

/// The elements of a tensor.
[[nodiscard]] inline std::vector<float> formula(std::string_view name, Shape const& shape, std::uint64_t seed = 0) {
    std::vector<float> out(static_cast<std::size_t>(shape.elements()));
    auto const start = fnv1a(name) + seed * 0xD1342543DE82EF95U;
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto x = start + i + 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
        x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
        x ^= x >> 31U;
        auto const unit = static_cast<double>(x >> 40U) / 16777216.0 - 0.5;
        if (shape.rank() >= 2)
            out[i] = static_cast<float>(unit * 0.5);
        else
            out[i] = static_cast<float>(name.ends_with("weight") ? 1.0 + unit * 0.5 : unit * 0.25);
    }
    return out;
}

/// Writes the parameters of a model as one safetensors file of fp32 tensors; of tied ones the first.
inline void write_formula_model(Model const& model, std::string const& path, std::uint64_t seed = 0) {
    struct Entry {
        std::string name;
        std::vector<float> values;
    };
    std::vector<Entry> entries;
    std::string header = "{";
    std::uint64_t offset = 0;
    walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
        for (auto const& tie : model.tree.ties()) {
            if (tie.other == name) return;
        }
        bool const is_written = name.ends_with("e_score_correction_bias") || name.ends_with("act_fn.beta") ||
                                name.ends_with("act_fn.eps");
        if (!tensor.is_parameter() && !is_written) return;
        entries.push_back({std::string(name), formula(name, tensor.shape, seed)});
        auto const bytes = entries.back().values.size() * sizeof(float);
        header += header.size() > 1 ? "," : "";
        header += "\"" + std::string(name) + "\":{\"dtype\":\"F32\",\"shape\":[";
        for (std::size_t d = 0; d < tensor.shape.rank(); ++d)
            header += (d > 0 ? "," : "") + std::to_string(tensor.shape[d]);
        header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + bytes) + "]}";
        offset += bytes;
    });
    header += "}";
    std::ofstream file(path, std::ios::binary);
    std::uint64_t const length = header.size();
    file.write(reinterpret_cast<char const*>(&length), sizeof length);
    file << header;
    for (auto const& entry : entries) {
        file.write(reinterpret_cast<char const*>(entry.values.data()),
                   static_cast<std::streamsize>(entry.values.size() * sizeof(float)));
    }
}

}  // namespace shardwise::testing
