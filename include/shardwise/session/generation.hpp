// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/sampling_options.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a caller wants generated.
struct GenerationRequest {
    std::vector<std::int32_t> prompt;
    std::int64_t max_new_tokens = 128;
    SamplingOptions sampling{};
    /// Tokens that end the text; they are not part of it.
    std::vector<std::int32_t> stop_tokens{};
    /// Texts that end the text where they would appear, across tokens too; they are not part of it. What runs a session
    /// looks for them, where it has a tokenizer: run_on_threads, run_in_group, serve_on_threads.
    std::vector<std::string> stop_strings{};
    /// Which stream of its seed's random numbers it draws from; unset: its number, so that requests of one seed draw differently.
    std::optional<std::uint64_t> random_stream{};
};

/// Why a sequence ended.
enum class FinishReason : std::uint8_t { stop_token, length, cancelled, stop_string };

/// A sequence that has ended.
struct Generation {
    std::int64_t request = 0;
    std::vector<std::int32_t> tokens;
    FinishReason reason = FinishReason::length;
    /// Where there is a tokenizer, on rank 0: the text up to where a stop string would appear.
    std::string text{};
};

/// Called with each new piece of a request's text: whole characters, nothing of a stop string.
using OnText = std::function<void(std::int64_t request, std::string_view text)>;
/// Called with each new token; false ends its sequence there (on every rank of a group alike).
using OnToken = std::function<bool(std::int64_t request, std::int32_t token)>;
/// Called with the logits that each new token is chosen from.
using OnLogits = std::function<void(std::int64_t request, std::span<float const> logits)>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
