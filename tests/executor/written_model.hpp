// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/products.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"
#include "written_files.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Models whose files a test writes, and what is read of them.
namespace shardwise::testing {

/// A described model and the folder of its files, whose tensors a test writes.
struct Written {
    TemporaryFolder folder;
    Model model;

    explicit Written(std::string const& config) {
        (void)folder.write("config.json", config);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto described = read_checkpoint(*only);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        model = std::move(described->model);
    }
    [[nodiscard]] Result<StoredParameters> open() const {
        auto const source = find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        if (!source) return source.error();
        return StoredParameters::open(*source, model);
    }
};

inline constexpr auto mixtral =
    R"({"model_type":"mixtral","vocab_size":8,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":3,"num_experts_per_tok":2})";
inline constexpr auto gpt_oss =
    R"({"model_type":"gpt_oss","vocab_size":8,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"num_local_experts":2,"num_experts_per_tok":1})";
inline constexpr auto llama =
    R"({"model_type":"llama","vocab_size":8,"hidden_size":64,"intermediate_size":128,"num_hidden_layers":1,)"
    R"("num_attention_heads":4,"num_key_value_heads":2})";
inline constexpr auto q_proj = "model.layers.0.self_attn.q_proj.weight";
inline constexpr auto down_proj = "model.layers.0.mlp.down_proj.weight";

[[nodiscard]] inline std::string text_of(std::span<std::byte const> bytes) {
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}
[[nodiscard]] inline std::string some_bytes(std::size_t count, unsigned seed) {
    std::string out(count, '\0');
    for (auto& byte : out) byte = static_cast<char>((seed = seed * 1664525U + 1013904223U) >> 24U);
    return out;
}
/// The values of a source, row by row.
[[nodiscard]] inline std::vector<float> values_of(WeightSource const& source) {
    std::vector<float> out(static_cast<std::size_t>(source.outputs * source.inputs));
    for (std::int64_t row = 0; row < source.outputs; ++row) {
        for (std::int64_t at = 0; at < source.inputs; at += 256)
            detail::decode_source(source, row, at, std::min<std::int64_t>(256, source.inputs - at),
                                  out.data() + row * source.inputs + at);
    }
    return out;
}
[[nodiscard]] inline std::vector<float> load(StoredParameters const& parameters, std::string_view name,
                                             MatrixPart const& part, LoadOptions const& options = {}) {
    HostContext context({.threads = 2});
    ParameterLoader<Host> loader(context, parameters, options);
    auto const found = parameters.find(name);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    auto const matrix = loader.matrix(*found, part);
    REQUIRE_MESSAGE(matrix, (matrix ? "" : matrix.error().message()));
    return values_of(matrix->source());
}

}  // namespace shardwise::testing
