// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/deploy/engines/common.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Families that Text Embeddings Inference serves; those that this library knows.
///
/// Unconfirmed for the pinned version; to be held to: TEI 1.9, docs/source/en/supported_models.md
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

/// The container of Text Embeddings Inference. Pooling of encoders is what the checkpoint says.
///
/// Unconfirmed for the pinned version; to be held to: TEI 1.9, `text-embeddings-router --help`
[[nodiscard]] inline Container tei_container(DeployRequest const& request, std::string image) {
    auto container = detail::base_container(request, static_cast<std::string&&>(image), 80, 8080, "/data");
    auto& words = container.arguments;
    detail::add_flag(words, "--model-id", detail::model_word(request));
    detail::add_address(words, "--hostname", container, request.has_host_network);
    auto const dtype = !request.dtype.empty() ? request.dtype : request.devices.empty() ? "float32" : "float16";
    detail::add_flag(words, "--dtype", dtype);
    auto const family = request.config.model_type.view();
    bool const is_decoder = family == "qwen2" || family == "qwen3" || family == "mistral";
    if (is_decoder) detail::add_flag(words, "--pooling", "last-token");
    return container;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
