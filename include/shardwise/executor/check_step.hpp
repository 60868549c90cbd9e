// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/held_block.hpp>
#include <shardwise/parallel/place.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Checks that a rank of so many groups has what brings it their experts' rows.
///
/// Errors  invalid_argument
[[nodiscard]] inline Result<> check_exchange(bool has_exchange, std::int64_t groups) {
    if (has_exchange || groups <= 1) return {};
    return Error{ErrorCode::invalid_argument}
        .in("executor")
        .at("ep")
        .because("needs an exchange: other ranks have some of the experts")
        .got(groups)
        .fix("give forward what make_exchange made");
}

/// Checks the new tokens of a step against what a rank has room for. Only a step with an exchange may have none.
///
/// Errors  invalid_argument
[[nodiscard]] inline Result<> check_step(std::span<std::int32_t const> ids, std::span<SequencePart const> parts,
                                         ExecutorLimits const& limits, bool is_bidirectional, bool has_exchange,
                                         std::int64_t vocabulary) {
    auto const refused = [] { return Error{ErrorCode::invalid_argument}.in("executor"); };
    if (static_cast<std::int64_t>(parts.size()) > limits.sequences) {
        return refused()
            .at("parts")
            .because("are more than there are caches")
            .got(static_cast<std::int64_t>(parts.size()))
            .at_most(limits.sequences)
            .fix("give one part for each sequence");
    }
    std::int64_t tokens = 0;
    for (auto const& part : parts) {
        if (part.slot < 0 || part.slot >= limits.sequences)
            return refused().at("slot").because("has no cache").got(part.slot).between(0, limits.sequences - 1);
        if (part.tokens < 1) return refused().at("tokens").because("is less than one").got(part.tokens).at_least(1);
        if (part.past < 0 || part.past > limits.context - part.tokens) {
            return refused()
                .at("context")
                .because("is not long enough for the sequence's past and new tokens")
                .got(part.past)
                .at_most(limits.context)
                .fix("make the executor with a longer context");
        }
        if (part.past > 0 && is_bidirectional) {
            return refused()
                .at("past")
                .because("is not kept: the model sees in both directions")
                .got(part.past)
                .fix("compute each sequence in one step");
        }
        tokens += part.tokens;
    }
    if ((parts.empty() && !has_exchange) || tokens != static_cast<std::int64_t>(ids.size())) {
        return refused()
            .at("ids")
            .because("are not as many as the sequences' parts say")
            .got(static_cast<std::int64_t>(ids.size()))
            .expected(tokens);
    }
    if (tokens > limits.step_tokens) {
        return refused()
            .at("tokens")
            .because("are more than a step has room for")
            .got(tokens)
            .at_most(limits.step_tokens)
            .fix("compute the prompt in chunks");
    }
    for (auto const id : ids) {
        if (id < 0 || id >= vocabulary)
            return refused().at("id").because("is not in the vocabulary").got(id).between(0, vocabulary - 1);
    }
    return {};
}

/// Checks that peers are the groups whose experts were loaded.
///
/// Errors  invalid_argument
[[nodiscard]] inline Result<> check_peers(TensorPlace peers, TensorPlace experts) {
    if (peers.ranks == experts.ranks && peers.rank == experts.rank) return {};
    return Error{ErrorCode::invalid_argument}
        .in("executor")
        .at("ep")
        .because("is not the group whose experts were loaded")
        .got(peers.ranks)
        .expected(experts.ranks);
}

/// Checks that sequences of a decoder that reads an encoder's states have some: `sources` are their tokens, by slot, and `cache` has what is
/// made of them, as long as the slot is not released; empty of other models.
///
/// Errors  invalid_argument
template <class Cache>
[[nodiscard]] Result<> check_sources(std::span<SequencePart const> parts, std::span<std::int64_t const> sources,
                                     Cache const& cache) {
    if (sources.empty()) return {};
    for (auto const& part : parts) {
        // The cache refuses a slot that it does not have.
        if (part.slot < 0 || part.slot >= std::ssize(sources)) continue;
        if (sources[static_cast<std::size_t>(part.slot)] > 0 && cache.has_pages(part.slot)) continue;
        return Error{ErrorCode::invalid_argument}
            .in("executor")
            .at("slot " + std::to_string(part.slot))
            .because("has no source, whose states the decoder reads")
            .fix("encode the sequence's source first");
    }
    return {};
}

/// Notes by slot the tokens of sources that are encoded, or that there are none.
inline void note_sources(std::span<SequencePart const> parts, std::span<std::int64_t> sources, bool is_kept = true) {
    for (auto const& part : parts) sources[static_cast<std::size_t>(part.slot)] = is_kept ? part.tokens : 0;
}

/// Checks what an executor's output is put into.
///
/// Errors  shape_mismatch; invalid_argument for elements without memory
template <class T, class Backend>
[[nodiscard]] Result<> check_output_rows(ExecutorOutput const& output, std::int64_t expected,
                                         TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views("executor", out); !known) return known;
    // Logits are gathered from ranks, one after another.
    bool const is_in_place = !output.is_logits || out.is_dense();
    if (out.extent(0) == expected && out.extent(1) == output.width && is_in_place) return {};
    Error error{ErrorCode::shape_mismatch};
    error.in("executor").at("out");
    if (out.extent(0) != expected)
        return error.because("does not have the output's rows").got(out.extent(0)).expected(expected);
    if (out.extent(1) != output.width)
        return error.because("does not have the output's columns").got(out.extent(1)).expected(output.width);
    return error.because("has gaps between rows of logits").got(out.stride(0)).expected(output.width);
}
/// Errors  invalid_argument
[[nodiscard]] inline Result<> check_output_type(ExecutorOutput const& output, Dtype given) {
    if (given == output.dtype) return {};
    return Error{ErrorCode::invalid_argument}
        .in("executor")
        .at("out")
        .because("is of " + std::string(traits(given).short_name) + ", the output of " +
                 std::string(traits(output.dtype).short_name));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
