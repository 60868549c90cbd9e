// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/work.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr std::int64_t cached_tokens(KeptHeads const& kept, EstimateRequest const& request,
                                                   std::int64_t context) {
    if (kept.window <= 0 || request.window == WindowPolicy::full) return context;
    return context < kept.window ? context : kept.window;
}

}  // namespace detail

/// The key-value cache of one layer that runs `body`, on the given tensor-parallel rank. A layer that
/// sees a window holds min(context, window) tokens without padding; cross-attention holds as many encoder tokens as
/// context. A gated delta rule keeps a state of each sequence, in fp32 and of one size. Ranks share heads as loading cuts them:
/// `grains` says, by value, which stay together (GrainedBody), empty: none.
[[nodiscard]] constexpr Bytes kv_cache_bytes(BlockBody const& body, EstimateRequest const& request,
                                             ModelConfig const& config, std::int64_t tp_rank = 0,
                                             Span<UnitGrain const> grains = {}) {
    auto const context = context_of(request, config);
    auto const width = bits(kv_dtype_of(request, config));
    bool const is_latent = request.mla == MlaPolicy::compressed;
    Bytes total{0};
    for (auto const& op : body.operations()) {
        auto const grain = grains.size() == 0 ? UnitGrain{} : grains[static_cast<std::size_t>(op.output)];
        auto const kept = kept_heads(op, is_latent);
        if (!kept.is_kept()) continue;
        auto const heads = kept.heads(request.parallel.tp, tp_rank, grain);
        total += request.batch * Bytes{4 * heads * kept.state};
        auto const elements = detail::cached_tokens(kept, request, context) * heads * (kept.key + kept.value);
        total += Bytes{ceil_divide(request.batch * elements * width, 8)};
    }
    return total;
}

/// What one more token of one sequence adds to the whole cache where no window limits it, over all layers of one
/// replica without tensor parallelism.
[[nodiscard]] constexpr Bytes kv_bytes_per_token(BlockProgram const& program, EstimateRequest const& request,
                                                 ModelConfig const& config) {
    auto const width = bits(kv_dtype_of(request, config));
    bool const is_latent = request.mla == MlaPolicy::compressed;
    std::int64_t total_bits = 0;
    for (auto const& block : program.blocks()) {
        for (auto const& op : program.body(block).operations()) {
            auto const kept = kept_heads(op, is_latent);
            total_bits += block.count * kept.heads(1, 0) * (kept.key + kept.value) * width;
        }
    }
    return Bytes{ceil_divide(total_bits, 8)};
}

/// The same for a model.
[[nodiscard]] constexpr Bytes kv_bytes_per_token(Model const& model, EstimateRequest const& request) {
    return kv_bytes_per_token(model.program, as_published(request, model.config), model.config);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
