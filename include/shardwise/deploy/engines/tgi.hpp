// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/engines/common.hpp>
#include <shardwise/deploy/memory_fraction.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The container of Text Generation Inference; its image keeps models in /data.
///
/// Source  TGI v3.3.5, launcher/src/main.rs
[[nodiscard]] inline Container tgi_container(DeployRequest const& request, std::string image) {
    auto container = detail::base_container(request, static_cast<std::string&&>(image), 80, 8080, "/data");
    auto& words = container.arguments;
    detail::add_flag(words, "--model-id", detail::model_word(request));
    detail::add_address(words, "--hostname", container, request.has_host_network);
    detail::add_flag(words, "--num-shard", request.tp);
    // Smaller than the total: a token of the answer must have a place.
    detail::add_flag(words, "--max-input-tokens", request.context - 1);
    detail::add_flag(words, "--max-total-tokens", request.context);
    detail::add_flag(words, "--max-concurrent-requests", request.sequences);
    detail::add_flag(words, "--cuda-memory-fraction", memory_fraction(request.memory));
    if (!request.dtype.empty()) detail::add_flag(words, "--dtype", request.dtype);
    if (auto const quant = detail::quant_flag_value(request); !quant.empty())
        detail::add_flag(words, "--quantize", quant);
    return container;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
