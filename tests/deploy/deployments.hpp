// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/formats/docker.hpp>
#include <shardwise/deploy/make_container.hpp>
#include <shardwise/deploy/shell_line.hpp>
#include <shardwise/model/presets.hpp>

#include <cstdint>
#include <string>

namespace shardwise::tests {

/// Llama 3 8B over `count` devices of 80 GiB, tensor parallel: 20 GiB of 80 on each, 15 and 1 of them weights and cache.
[[nodiscard]] inline DeployRequest deployment(Engine engine, std::int32_t count = 1,
                                              DeviceKind kind = DeviceKind::cuda) {
    constexpr std::int64_t gib = std::int64_t{1} << 30U;
    DeployRequest request;
    request.engine = engine;
    request.model = "meta-llama/Meta-Llama-3-8B";
    request.config = presets::llama_3_8b;
    if (engine == Engine::tei) {
        request.model = "BAAI/bge-base-en";
        request.config.model_type = "bert";
    }
    bool const is_amd = kind == DeviceKind::hip;
    for (std::int32_t i = 0; i < count; ++i) {
        ContainerDevice device;
        device.index = i;
        device.render_node = 128 + i;
        device.kind = kind;
        device.name = is_amd ? "MI300X" : "H100";
        device.architecture = is_amd ? "gfx942" : "sm_90";
        request.devices.push_back(device);
    }
    request.tp = engine == Engine::llama_server || count == 0 ? 1 : count;
    if (engine == Engine::llama_server && count > 0) {
        request.pp = count;
        request.stage_layers.assign(static_cast<std::size_t>(count), 32 / count);
    }
    request.memory = {Bytes{15 * gib}, Bytes{gib}, Bytes{20 * gib}, Bytes{80 * gib}, Bytes{-1}};
    request.context = 8192;
    request.sequences = 4;
    request.hub_cache = "/home/me/.cache/huggingface/hub";
    return request;
}

/// The line of docker, or the message of the refusal.
[[nodiscard]] inline std::string docker_line(DeployRequest const& request) {
    auto const container = make_container(request);
    return container ? shell_line(docker_command(*container)) : container.error().message();
}

}  // namespace shardwise::tests
