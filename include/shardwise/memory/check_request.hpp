// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/memory/training.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The most tokens of a batch, and ranks of a run, that sizes are computed for; products stay within 63 bits.
inline constexpr std::int64_t max_tokens = std::int64_t{1} << 33U;
inline constexpr std::int64_t max_ranks = std::int64_t{1} << 16U;

/// Refuses requests that no run could serve, and names the member at fault and what is legal. A tensor-parallel degree
/// need not divide anything: ranks then hold a unit more or less.
///
/// Errors  invalid_argument for degrees that the model has no units for; size_overflow, capacity_exceeded; as
///         check_training
[[nodiscard]] constexpr Result<> check_request(EstimateRequest const& request, ModelConfig const& config,
                                               std::int64_t layers) {
    auto const& parallel = request.parallel;
    auto const refuse = [](std::string_view member, std::string_view reason, std::int64_t got, std::int64_t bound,
                           std::string_view fix) {
        Error error{ErrorCode::invalid_argument};
        error.at(member).because(reason).got(got).fix(fix);
        return got < bound ? error.at_least(bound) : error.at_most(bound);
    };
    if (request.batch < 1) return refuse("batch", "must be at least 1", request.batch, 1, "give 1 or more");
    if (request.context < 0)
        return refuse("context", "must not be negative", request.context, 0,
                      "give 1 or more, or 0 for the model's own");
    if (request.prefill_chunk < 0)
        return refuse("prefill_chunk", "must not be negative", request.prefill_chunk, 0,
                      "give 1 or more, or 0 for none");
    // Not a number is refused too.
    if (!(request.utilization > 0.0 && request.utilization <= 1.0)) {
        return Error{ErrorCode::invalid_argument}
            .at("utilization")
            .because("must be above 0 and at most 1")
            .fix("give the share of each device's memory that may be used, like 0.92");
    }
    if (request.micro_batches < 0 || request.micro_batches > request.batch) {
        return refuse("micro_batches", "must be 0 to the number of sequences", request.micro_batches, request.batch,
                      "give each micro-batch at least one sequence");
    }
    if (parallel.tp < 1)
        return refuse("tp", "must be at least 1", parallel.tp, 1, "legal are 1 to the number of query heads");
    if (parallel.pp < 1)
        return refuse("pp", "must be at least 1", parallel.pp, 1, "legal are 1 to the number of layers");
    if (parallel.ep < 1)
        return refuse("ep", "must be at least 1", parallel.ep, 1, "legal are 1 to the number of experts");
    if (parallel.dp < 1) return refuse("dp", "must be at least 1", parallel.dp, 1, "give 1 or more");
    if (config.heads > 0 && parallel.tp > config.heads) {
        return refuse("tp", "is more than the model has query heads", parallel.tp, config.heads,
                      "legal are 1 to the number of query heads, whether they divide or not");
    }
    if (parallel.pp > layers && parallel.pp > 1) {
        return refuse("pp", "is more than the model has layers", parallel.pp, layers,
                      "legal are 1 to the number of layers");
    }
    if (parallel.ep > 1 && config.experts == 0) {
        return refuse("ep", "splits experts, and the model has none", parallel.ep, 1,
                      "legal is 1; tp splits dense layers");
    }
    if (parallel.ep > 1 && parallel.ep > config.experts) {
        return refuse("ep", "is more than the model has experts", parallel.ep, config.experts,
                      "legal are 1 to the number of experts");
    }
    auto const tokens = checked_multiply(request.batch, context_of(request, config));
    if (!tokens || *tokens > max_tokens) {
        return Error{ErrorCode::size_overflow}
            .at("context")
            .because("the batch has more tokens than sizes are computed for")
            .at_most(max_tokens)
            .fix("lower batch or context");
    }
    auto ranks = checked_multiply(parallel.tp, parallel.pp);
    if (ranks) ranks = checked_multiply(*ranks, parallel.ep);
    if (ranks) ranks = checked_multiply(*ranks, parallel.dp);
    if (!ranks || *ranks > max_ranks) {
        return Error{ErrorCode::capacity_exceeded}
            .at("tp * pp * ep * dp")
            .because("is more ranks than are listed")
            .at_most(max_ranks)
            .fix("lower one of the degrees");
    }
    if (!request.training) return {};
    return check_training(*request.training, request, request.dtype.value_or(config.dtype_or(Dtype::f32)));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
