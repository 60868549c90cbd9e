// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/session/generation.hpp>
#include <shardwise/session/run_options.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The tokens that a decoder begins with: the prompt, or where an encoder takes that one token of its own.
[[nodiscard]] constexpr std::int64_t decoder_prompt(std::int64_t prompt, bool has_encoder) {
    return has_encoder ? 1 : prompt;
}

/// The room that requests need.
[[nodiscard]] inline ExecutorLimits limits_for(std::vector<GenerationRequest> const& requests, Model const& model,
                                               RunOptions const& options, Dtype activations) {
    auto const& config = model.config;
    bool const has_encoder = model.program.has_encoder();
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    std::int64_t longest = 1;
    std::int64_t longest_source = 0;
    for (auto const& request : requests) {
        auto const prompt = static_cast<std::int64_t>(request.prompt.size());
        auto const whole =
            checked_add(decoder_prompt(prompt, has_encoder), std::max<std::int64_t>(request.max_new_tokens, 0));
        longest = std::max(longest, whole ? *whole : most);
        if (has_encoder) longest_source = std::max(longest_source, prompt);
    }
    longest = std::max(longest, longest_source);
    auto context = options.context > 0 ? options.context : longest;
    if (options.context <= 0 && config.max_positions > 0) context = std::min(context, config.max_positions);
    auto const sequences = std::clamp<std::int64_t>(
        options.sequences, 1, std::max<std::int64_t>(static_cast<std::int64_t>(requests.size()), 1));
    auto const room = checked_multiply(sequences, context);
    auto const chunk = std::clamp(options.step_tokens, std::int64_t{1}, std::max(room ? *room : most, std::int64_t{1}));
    // A source is encoded in one step.
    auto const step = std::max(chunk, std::min(longest_source, context));
    return {.sequences = sequences,
            .context = context,
            .step_tokens = step,
            .cache_tokens = options.cache_tokens,
            .kv_dtype = options.kv_dtype,
            .product_activations = options.product_activations,
            .has_graphs = options.has_graphs,
            .activations = activations};
}

/// The room of a conversation, whose requests come one at a time.
[[nodiscard]] inline ExecutorLimits conversation_limits(ModelConfig const& config, RunOptions const& options,
                                                        Dtype activations) {
    auto context = options.context;
    if (config.max_positions > 0) context = std::min(context, config.max_positions);
    return {.context = context,
            .step_tokens = std::max<std::int64_t>(std::min(options.step_tokens, context), 1),
            .kv_dtype = options.kv_dtype,
            .product_activations = options.product_activations,
            .has_graphs = options.has_graphs,
            .activations = activations};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
