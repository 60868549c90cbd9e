// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/engines/common.hpp>
#include <shardwise/deploy/memory_fraction.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The container of vLLM's OpenAI-compatible server. Its compile cache outlives it in a volume.
///
/// Source  vLLM 0.33.0: tests/golden/deploy/flags.txt names the files
[[nodiscard]] inline Container vllm_container(DeployRequest const& request, std::string image) {
    auto container = detail::base_container(request, static_cast<std::string&&>(image), 8000, 8000,
                                            "/root/.cache/huggingface/hub");
    container.mounts.push_back({"vllm-cache", "/root/.cache/vllm", false});
    // Images' own entry points changed between versions.
    container.entrypoint = "vllm";
    auto& words = container.arguments;
    words = {"serve", detail::model_word(request)};
    detail::add_address(words, "--host", container, request.has_host_network);
    detail::add_flag(words, "--tensor-parallel-size", request.tp);
    detail::add_flag(words, "--pipeline-parallel-size", request.pp);
    detail::add_flag(words, "--max-model-len", request.context);
    detail::add_flag(words, "--max-num-seqs", request.sequences);
    detail::add_flag(words, "--gpu-memory-utilization", memory_fraction(request.memory));
    detail::add_formats(words, request);
    if (container.nodes > 1) {
        auto& more = container.node_arguments;
        detail::add_node_rank(more);
        detail::add_flag(more, "--master-addr", "$(LWS_LEADER_ADDRESS)");
        container.worker_arguments = {"--headless"};
    }
    return container;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
