// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/load_options.hpp>

#include "generate_model.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

/// Whole models on the device that a benchmark is compiled for: one unit, device_generate.cpp, compiles them for all benchmarks.
namespace bench {

struct GenerateOptions {
    /// Tokens of each prompt, and those that follow it.
    std::int64_t prompt = 16;
    std::int64_t made = 128;
    std::int64_t sequences = 1;
    /// Tensor-parallel ranks that share the device.
    std::int32_t ranks = 1;
    bool has_graphs = true;
    /// Where all layers lie between their uses.
    shardwise::LayerHome home = shardwise::LayerHome::resident;
    shardwise::LoadOptions load{};
};

/// Tokens per second, and the seconds from the call to the first step.
struct GenerateRates {
    double prefill = 0.0;
    double decode = 0.0;
    double load_seconds = 0.0;
};

/// A llama with random weights, in a folder that goes with it.
class GeneratedModel {
public:
    /// Throws where there is no room for the weights.
    explicit GeneratedModel(LlamaShape const& shape);
    GeneratedModel(GeneratedModel const&) = delete;
    GeneratedModel& operator=(GeneratedModel const&) = delete;
    ~GeneratedModel();

    [[nodiscard]] LlamaShape const& shape() const { return shape_; }
    [[nodiscard]] std::string const& folder() const { return folder_; }
    [[nodiscard]] std::string weights_file() const { return folder_ + "/model.safetensors"; }
    /// Throws what the run fails with.
    [[nodiscard]] GenerateRates generate(GenerateOptions const& options) const;

private:
    struct Opened;

    LlamaShape shape_;
    std::string folder_;
    std::unique_ptr<Opened> opened_;
};

/// Bytes that one token is multiplied by: all matrices but the embedding, where they and the head have so many bits an element.
[[nodiscard]] inline double weight_bytes(LlamaShape const& shape, double bits, double head_bits) {
    double bytes = 0.0;
    for (auto const& matrix : matrices_of(shape)) {
        if (matrix.outputs == 1 || matrix.name == "model.embed_tokens.weight") continue;
        auto const elements = static_cast<double>(matrix.outputs) * static_cast<double>(matrix.inputs);
        bytes += elements * (matrix.name == "lm_head.weight" ? head_bits : bits) / 8.0;
    }
    return bytes;
}
/// Bytes of the bf16 keys and values of one token.
[[nodiscard]] inline double cache_bytes(LlamaShape const& shape) {
    return 4.0 * static_cast<double>(shape.kv_width() * shape.layers);
}
/// Elements of the layers' matrices.
[[nodiscard]] inline double layer_elements(LlamaShape const& shape) {
    return weight_bytes(shape, 8.0, 0.0);
}

/// Bytes per second at which a file that was read before is read once more, by the cores of this machine.
[[nodiscard]] double file_rate(std::string const& path);

}  // namespace bench
