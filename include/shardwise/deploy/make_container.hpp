// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/deploy/check_deploy.hpp>
#include <shardwise/deploy/container.hpp>
#include <shardwise/deploy/engines/llama_server.hpp>
#include <shardwise/deploy/engines/sglang.hpp>
#include <shardwise/deploy/engines/tei.hpp>
#include <shardwise/deploy/engines/tgi.hpp>
#include <shardwise/deploy/engines/vllm.hpp>
#include <shardwise/deploy/images.hpp>

#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Refuses a plan for fewer or more devices than the container gets.
[[nodiscard]] inline Result<> check_ranks(DeployRequest const& request) {
    auto const ranks = request.tp * request.pp;
    if (request.devices.empty() || request.engine == Engine::tei || ranks == request.device_count()) return {};
    return Error{ErrorCode::invalid_argument}
        .in("devices")
        .because("are " + std::to_string(request.device_count()) + ", and the plan has tp " + std::to_string(request.tp) +
                 " x pp " + std::to_string(request.pp))
        .fix("give the devices that the plan uses");
}

}  // namespace detail

/// The container that runs a plan on an engine; starts nothing.
///
/// Errors  as check_deploy and image_of; invalid_argument where the devices are not as many as tp x pp
[[nodiscard]] inline Result<Container> make_container(DeployRequest const& request) {
    if (auto const checked = check_deploy(request); !checked) return checked.error();
    if (auto const checked = detail::check_ranks(request); !checked) return checked.error();
    auto image = image_of(request);
    if (!image) return image.error();
    switch (request.engine) {
        case Engine::vllm: return vllm_container(request, *std::move(image));
        case Engine::sglang: return sglang_container(request, *std::move(image));
        case Engine::llama_server: return llama_server_container(request, *std::move(image));
        case Engine::tgi: return tgi_container(request, *std::move(image));
        case Engine::tei: return tei_container(request, *std::move(image));
    }
    return Error{ErrorCode::unknown_name}.in("engine");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
