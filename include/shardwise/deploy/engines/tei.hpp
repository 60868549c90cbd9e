// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/deploy/engines/common.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Families that Text Embeddings Inference serves; those that this library knows.
///
/// Source  TEI v1.9.0, backends/candle/src/lib.rs
inline constexpr std::array<std::string_view, 8> tei_families{"bert",  "roberta", "distilbert", "xlm-roberta",
                                                              "qwen2", "qwen3",   "mistral",    "gemma3_text"};

/// True for those of them that only encode: the first ones.
[[nodiscard]] constexpr bool is_tei_encoder(std::string_view family) {
    for (std::size_t i = 0; i < 4; ++i) {
        if (tei_families[i] == family) return true;
    }
    return false;
}

[[nodiscard]] constexpr bool is_tei_family(std::string_view family) {
    for (auto const one : tei_families) {
        if (one == family) return true;
    }
    return family == "gemma3";
}

/// True for families that it has kernels for on NVIDIA's GPUs only, in float16.
[[nodiscard]] constexpr bool needs_tei_gpu(std::string_view family) {
    return family == "qwen2" || family == "mistral";
}

/// The element type that it runs a family in where nobody asks for one; Gemma 3 has no other than float32.
[[nodiscard]] constexpr std::string_view tei_dtype(std::string_view family, bool is_on_processor) {
    return is_on_processor || family.substr(0, 6) == "gemma3" ? "float32" : "float16";
}

/// True where an image that was built for a compute capability runs on a device of another.
///
/// Source  TEI v1.9.0, backends/candle/src/compute_cap.rs
[[nodiscard]] constexpr bool is_tei_capability(std::int32_t device, std::int32_t image) {
    if (image == 80 || image == 86) return device >= image && device <= 89;
    return device == image;
}

/// The compute capability that an image of its makers is built for, by its tag; 0 where the tag does not say.
[[nodiscard]] inline std::int32_t tei_image_capability(std::string_view image) {
    constexpr std::string_view maker = "huggingface/text-embeddings-inference:";
    auto const at = image.find(maker);
    if (at == std::string_view::npos) return 0;
    auto const tag = image.substr(at + maker.size());
    constexpr std::array<std::pair<std::string_view, std::int32_t>, 6> starts{
        {{"turing-", 75}, {"86-", 86}, {"89-", 89}, {"hopper-", 90}, {"100-", 100}, {"120-", 120}}};
    for (auto const& [start, capability] : starts) {
        if (tag.substr(0, start.size()) == start) return capability;
    }
    // "1.9": Ampere.
    return tag.find_first_not_of("0123456789.") == std::string_view::npos ? 80 : 0;
}

/// The container of Text Embeddings Inference. Pooling of encoders is what the checkpoint says.
///
/// Source  TEI v1.9.0, router/src/main.rs
[[nodiscard]] inline Container tei_container(DeployRequest const& request, std::string image) {
    auto container = detail::base_container(request, static_cast<std::string&&>(image), 80, 8080, "/data");
    auto& words = container.arguments;
    detail::add_flag(words, "--model-id", detail::model_word(request));
    detail::add_address(words, "--hostname", container, request.has_host_network);
    auto const family = request.config.model_type.view();
    auto const usual = tei_dtype(family, request.devices.empty());
    detail::add_flag(words, "--dtype", request.dtype.empty() ? usual : std::string_view{request.dtype});
    bool const is_decoder = family == "qwen2" || family == "qwen3" || family == "mistral";
    if (is_decoder) detail::add_flag(words, "--pooling", "last-token");
    return container;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
