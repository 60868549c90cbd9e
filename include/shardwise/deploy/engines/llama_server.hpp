// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/engines/common.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The container of llama.cpp's server: every layer on the devices, as many on each as the plan's stages have.
///
/// Source  the llama.cpp in llama-cpp-python 0.3.36, common/arg.cpp; not the build of the pinned image. -c counts the tokens of
///         all sequences
[[nodiscard]] inline Container llama_server_container(DeployRequest const& request, std::string image) {
    auto container = detail::base_container(request, static_cast<std::string&&>(image), 8080, 8080,
                                            "/root/.cache/huggingface/hub");
    auto& words = container.arguments;
    bool const is_hub = request.place == ModelPlace::hub;
    detail::add_flag(words, is_hub ? "-hf" : "-m", detail::model_word(request));
    detail::add_address(words, "--host", container, request.has_host_network);
    detail::add_flag(words, "-ngl", request.devices.empty() ? "0" : "all");
    if (request.device_count() > 1) {
        std::string shares;
        for (auto const layers : request.stage_layers) shares += (shares.empty() ? "" : ",") + std::to_string(layers);
        detail::add_flag(words, "-sm", "layer");
        detail::add_flag(words, "-ts", shares);
    } else if (request.device_count() == 1) {
        detail::add_flag(words, "-sm", "none");
    }
    detail::add_flag(words, "-c", request.context * request.sequences);
    detail::add_flag(words, "-np", request.sequences);
    std::string const cache = request.kv_bits > 16 ? "f32" : request.kv_bits == 16 ? "f16" : "q8_0";
    detail::add_flag(words, "-ctk", cache);
    detail::add_flag(words, "-ctv", cache);
    detail::add_flag(words, "-fit", "off");
    words.emplace_back("--metrics");
    return container;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
