// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/deepseek_v3.hpp>
#include <shardwise/model/arch/gpt_oss.hpp>
#include <shardwise/model/presets_deepseek.hpp>
#include <shardwise/model/presets_phi.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/quant/quantized_bytes.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string_view>

using namespace shardwise;

namespace {

struct Stored {
    std::int64_t bytes = 0;
    std::int64_t tensors = 0;
};

/// What a checkpoint of bf16 stores under a scheme of the modules whose names hold `part`.
Stored stored_bytes(Model const& model, QuantScheme const& scheme, std::string_view part = {}) {
    Stored stored;
    bool is_linear = false;
    walk(
        model.tree,
        [&](std::string_view, Module const& module, ModuleRole) { is_linear = is_linear_class(module.class_name); },
        [&](std::string_view name, Tensor const& tensor) {
            if (tensor.kind == TensorKind::transient_buffer || name.find(part) == std::string_view::npos) return;
            Weight weight{.shape = tensor.shape, .dtype = Dtype::bf16, .use = tensor.use};
            weight.is_expert = tensor.shard.experts > 0;
            weight.is_transposed = tensor.shape.rank() == 3;
            weight.in_linear_module = is_linear;
            stored.bytes += quantized_bytes(scheme, weight).value_or(0);
            stored.tensors += packs(scheme, weight) ? 2 : 1;
        });
    return stored;
}

}  // namespace

TEST_CASE("gpt-oss takes the bytes of its published indices in mxfp4") {
    // total_size of model.safetensors.index.json at https://huggingface.co/openai/gpt-oss-20b
    auto const model = describe<GptOss>(presets::gpt_oss_20b);
    REQUIRE(model);
    CHECK(stored_bytes(*model, QuantScheme::mxfp4()).bytes == 13761264768);
}

TEST_CASE("DeepSeek-V3's fp8 files exceed its tensors by their headers") {
    auto const model = describe<DeepseekV3>(presets::deepseek_v3);
    REQUIRE(model);
    auto const scheme = QuantScheme::fp8_blocks();
    auto const main = stored_bytes(*model, scheme);
    // The files also hold layer 61 for the prediction of a second token: a layer like the last, its own embedding,
    // head, three norms and a projection of two hidden states in bf16.
    auto const layer = stored_bytes(*model, scheme, ".layers.60.");
    std::int64_t const hidden = 7168;
    auto const second = layer.bytes + 2 * (2 * 129280 * hidden + 3 * hidden + 2 * hidden * hidden);
    // All files of https://huggingface.co/deepseek-ai/DeepSeek-V3: 688,586,727,753 bytes.
    auto const headers = 688586727753 - main.bytes - second;
    auto const tensors = main.tensors + layer.tensors + 6;
    // A tensor takes its name, dtype, shape and offsets in the header: 100 to 150 bytes.
    CHECK(headers / tensors > 100);
    CHECK(headers / tensors < 150);
}
