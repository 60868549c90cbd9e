// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/engines/common.hpp>
#include <shardwise/deploy/memory_fraction.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The container of SGLang's server.
///
/// Source  SGLang 0.5.23: tests/golden/deploy/flags.txt names the files
[[nodiscard]] inline Container sglang_container(DeployRequest const& request, std::string image) {
    auto container = detail::base_container(request, static_cast<std::string&&>(image), 30000, 30000,
                                            "/root/.cache/huggingface/hub");
    container.entrypoint = "python3";
    auto& words = container.arguments;
    words = {"-m", "sglang.launch_server"};
    detail::add_flag(words, "--model-path", detail::model_word(request));
    detail::add_address(words, "--host", container, request.has_host_network);
    detail::add_flag(words, "--tp-size", request.tp);
    detail::add_flag(words, "--pp-size", request.pp);
    detail::add_flag(words, "--context-length", request.context);
    detail::add_flag(words, "--max-running-requests", request.sequences);
    detail::add_flag(words, "--mem-fraction-static", static_fraction(request.memory));
    detail::add_formats(words, request);
    if (container.nodes > 1) {
        auto& more = container.node_arguments;
        detail::add_node_rank(more);
        detail::add_flag(more, "--dist-init-addr", "$(LWS_LEADER_ADDRESS):50000");
    }
    return container;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
