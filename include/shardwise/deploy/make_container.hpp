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

/// The container that runs a plan on an engine; starts nothing.
///
/// Errors  as check_deploy and image_of
[[nodiscard]] inline Result<Container> make_container(DeployRequest const& request) {
    if (auto const checked = check_deploy(request); !checked) return checked.error();
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
