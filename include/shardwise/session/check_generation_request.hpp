// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/kernels/sample.hpp>
#include <shardwise/session/generation.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Checks a request against what a session has memory for; an encoder takes its prompt in one step.
///
/// Errors  invalid_argument for an empty prompt, a prompt that leaves no token of the context, a negative number of tokens, ids
///         outside of the vocabulary, or sampling options outside of their range
[[nodiscard]] inline Result<> check_generation_request(GenerationRequest const& request, ExecutorLimits const& limits,
                                                       std::int64_t vocabulary, bool has_encoder) {
    Error error{ErrorCode::invalid_argument};
    error.in("request");
    auto const length = static_cast<std::int64_t>(request.prompt.size());
    if (length < 1) return error.at("prompt").because("has no tokens").fix("give at least one token");
    if (request.max_new_tokens < 0)
        return error.at("max_new_tokens").because("is negative").got(request.max_new_tokens);
    if (length > limits.context) {
        return error.at("prompt")
            .because("is longer than the context")
            .got(length)
            .at_most(limits.context)
            .fix("shorten the prompt or make a longer context");
    }
    if (has_encoder && length > limits.step_tokens) {
        return error.at("prompt")
            .because("is encoded in one step, which has fewer tokens")
            .got(length)
            .at_most(limits.step_tokens)
            .fix("shorten the prompt or give steps more tokens");
    }
    for (auto const id : request.prompt) {
        if (id < 0 || id >= vocabulary)
            return error.at("prompt")
                .because("has an id that is not in the vocabulary")
                .got(id)
                .between(0, vocabulary - 1);
    }
    return detail::check_sampling({request.sampling}, vocabulary);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
