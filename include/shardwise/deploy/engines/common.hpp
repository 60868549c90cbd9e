// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>
#include <shardwise/deploy/deploy_request.hpp>
#include <shardwise/deploy/quant_words.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Where a model of this machine appears in the container.
inline constexpr std::string_view model_folder = "/model";

/// The last part of a path.
[[nodiscard]] inline std::string file_name(std::string_view path) {
    auto const slash = path.rfind('/');
    return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

/// How the engine calls the model: its name on the hub, or its path in the container.
[[nodiscard]] inline std::string model_word(DeployRequest const& request) {
    switch (request.place) {
        case ModelPlace::hub: return request.model;
        case ModelPlace::folder: return std::string(model_folder);
        case ModelPlace::file: return std::string(model_folder) + "/" + file_name(request.model);
    }
    return request.model;
}

/// Appends a flag and its value as two words.
inline void add_flag(std::vector<std::string>& words, std::string_view flag, std::string_view value) {
    words.emplace_back(flag);
    words.emplace_back(value);
}
inline void add_flag(std::vector<std::string>& words, std::string_view flag, std::int64_t value) {
    add_flag(words, flag, std::to_string(value));
}

/// Appends --host and --port as the container needs them.
inline void add_address(std::vector<std::string>& words, std::string_view host_flag, Container const& container,
                        bool has_host_network) {
    add_flag(words, host_flag, has_host_network ? std::string_view{container.host_address} : "0.0.0.0");
    add_flag(words, "--port", has_host_network ? container.host_port : container.port);
}

/// The engine's word for what --quant asks for; "" where the checkpoint says it all.
[[nodiscard]] inline std::string quant_flag_value(DeployRequest const& request) {
    if (!request.engine_quant.empty()) return request.engine_quant;
    if (!request.quant || request.quant == request.stored_quant) return {};
    auto const word = quant_word(request.engine, *request.quant);
    return word ? std::string(*word) : std::string{};
}

/// What all engines' containers have: devices, ports, the model or the cache of models, HF_TOKEN by its name.
[[nodiscard]] inline Container base_container(DeployRequest const& request, std::string image, std::int32_t port,
                                              std::int32_t host_port, std::string_view cache) {
    Container container;
    container.image = static_cast<std::string&&>(image);
    container.nodes = request.node_count();
    // check_deploy has seen that all nodes have as many.
    auto const on_each = static_cast<std::ptrdiff_t>(request.devices.size()) / container.nodes;
    container.devices.assign(request.devices.begin(), request.devices.begin() + on_each);
    container.has_cdi = request.has_cdi;
    container.port = port;
    container.host_port = request.port > 0 ? request.port : host_port;
    container.host_address = request.host_address;
    container.name = "shardwise-" + std::string(name_of(request.engine)) + "-" + std::to_string(container.host_port);
    // Ranks talk through /dev/shm: 1 GiB each, as TGI's documentation has it.
    container.shared_memory = Bytes{(std::int64_t{1} << 30U) * std::max<std::int64_t>(on_each, 1)};
    if (request.place == ModelPlace::hub) {
        if (!request.hub_cache.empty()) container.mounts.push_back({request.hub_cache, std::string(cache), false});
        container.environment.push_back({"HF_TOKEN", std::nullopt});
    } else {
        auto const source = request.place == ModelPlace::folder
                                ? request.model
                                : request.model.substr(0, request.model.rfind('/') + 1);
        container.mounts.push_back({source, std::string(model_folder), true});
    }
    for (auto const& entry : request.environment) {
        bool is_known = false;
        for (auto& other : container.environment) {
            if (other.name != entry.name) continue;
            other = entry;
            is_known = true;
        }
        if (!is_known) container.environment.push_back(entry);
    }
    return container;
}

/// The dtype and the format of the weights, where the request has them.
inline void add_formats(std::vector<std::string>& words, DeployRequest const& request) {
    if (!request.dtype.empty()) add_flag(words, "--dtype", request.dtype);
    if (auto const quant = quant_flag_value(request); !quant.empty()) add_flag(words, "--quantization", quant);
}
/// Which of its group's nodes a node is, as LeaderWorkerSet's variables have it.
inline void add_node_rank(std::vector<std::string>& words) {
    add_flag(words, "--nnodes", "$(LWS_GROUP_SIZE)");
    add_flag(words, "--node-rank", "$(LWS_WORKER_INDEX)");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
