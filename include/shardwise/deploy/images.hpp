// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/deploy/deploy_request.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An image of an engine, pinned by its version.
struct EngineImage {
    Engine engine;
    DeviceKind kind;
    /// Compute capability that the image is built for, 90 for 9.0; 0: all that the engine has.
    std::int32_t capability;
    std::string_view image;
};

/// When this table was written. What was looked up then: that vLLM 0.33.0 and SGLang 0.5.23 are PyPI's newest, that
/// ghcr.io listed llama.cpp's server-cuda12-b9603, and by which workflows TGI v3.3.5 and TEI v1.9.0 name their images. The
/// other tags follow the makers' scheme of names and were not looked up; no image was pulled.
inline constexpr std::string_view images_checked = "2026-11-24";

/// Images by engine and vendor.
///
/// Source  pypi.org/project/vllm and /sglang (tags are "v" and the version), github.com/orgs/ggml-org/packages,
///         .github/workflows/build.yaml and matrix.json of TGI and TEI; those of AMD's devices are unconfirmed
inline constexpr std::array<EngineImage, 16> engine_images{{
    {Engine::vllm, DeviceKind::cuda, 0, "vllm/vllm-openai:v0.33.0"},
    {Engine::vllm, DeviceKind::hip, 0, "vllm/vllm-openai-rocm:v0.33.0"},
    {Engine::sglang, DeviceKind::cuda, 0, "lmsysorg/sglang:v0.5.23"},
    {Engine::llama_server, DeviceKind::cuda, 0, "ghcr.io/ggml-org/llama.cpp:server-cuda12-b9603"},
    {Engine::llama_server, DeviceKind::hip, 0, "ghcr.io/ggml-org/llama.cpp:server-rocm-b9603"},
    {Engine::llama_server, DeviceKind::cpu, 0, "ghcr.io/ggml-org/llama.cpp:server-b9603"},
    {Engine::tgi, DeviceKind::cuda, 0, "ghcr.io/huggingface/text-generation-inference:3.3.5"},
    {Engine::tgi, DeviceKind::hip, 0, "ghcr.io/huggingface/text-generation-inference:3.3.5-rocm"},
    {Engine::tei, DeviceKind::cpu, 0, "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9"},
    {Engine::tei, DeviceKind::cuda, 75, "ghcr.io/huggingface/text-embeddings-inference:turing-1.9"},
    {Engine::tei, DeviceKind::cuda, 86, "ghcr.io/huggingface/text-embeddings-inference:86-1.9"},
    {Engine::tei, DeviceKind::cuda, 89, "ghcr.io/huggingface/text-embeddings-inference:89-1.9"},
    {Engine::tei, DeviceKind::cuda, 90, "ghcr.io/huggingface/text-embeddings-inference:hopper-1.9"},
    {Engine::tei, DeviceKind::cuda, 100, "ghcr.io/huggingface/text-embeddings-inference:100-1.9"},
    {Engine::tei, DeviceKind::cuda, 120, "ghcr.io/huggingface/text-embeddings-inference:120-1.9"},
    {Engine::tei, DeviceKind::cuda, 0, "ghcr.io/huggingface/text-embeddings-inference:cuda-1.9"},
}};

/// The least compute capability that an engine runs on.
///
/// Unconfirmed: what is generally said of these engines (Turing, 7.5; CUDA 12 builds of llama.cpp from 5.0), not read from
/// the documents of the pinned versions.
[[nodiscard]] constexpr std::int32_t min_capability(Engine engine) {
    switch (engine) {
        case Engine::vllm:
        case Engine::sglang:
        case Engine::tgi:
        case Engine::tei: return 75;
        case Engine::llama_server: return 50;
    }
    return 0;
}

/// 90 for "sm_90"; nothing for what is no compute capability.
[[nodiscard]] inline Optional<std::int32_t> capability_of(std::string_view architecture) {
    if (architecture.substr(0, 3) != "sm_") return std::nullopt;
    auto const digits = architecture.substr(3);
    std::int32_t number = 0;
    auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    // "sm_90a"
    if (problem != std::errc{} || end < digits.data() + digits.size() - 1) return std::nullopt;
    return number;
}

/// The image for an engine on these devices: the request's own, the one for their compute capability, or the vendor's.
///
/// Errors  unsupported where the engine has none for the vendor
[[nodiscard]] inline Result<std::string> image_of(DeployRequest const& request) {
    if (!request.image.empty()) return request.image;
    Optional<std::int32_t> capability;
    if (!request.devices.empty()) capability = capability_of(request.devices.front().architecture);
    for (auto const& row : engine_images) {
        if (row.engine != request.engine || row.kind != request.kind()) continue;
        if (row.capability == 0 || (capability && row.capability == *capability)) return std::string(row.image);
    }
    return Error{ErrorCode::invalid_argument}
        .in(name_of(request.engine))
        .because("has no image for " + std::string(name_of(request.kind())) + " devices in the table")
        .fix(request.kind() == DeviceKind::cpu ? "name a GPU by --devices, or an image by --image"
                                               : "name an image by --image");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
