#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>

#include <cstdint>

namespace shardwise::inline v0 {

namespace detail {

/// Elements that the cache of one attention holds for one token on the largest tensor-parallel rank, or on `rank`.
[[nodiscard]] constexpr std::int64_t cached_elements(AttentionShape const& shape, EstimateRequest const& request,
                                                     std::int64_t tp_rank) {
    if (!shape.is_causal && !shape.is_cross) return 0;
    // The latent serves every head, so that each rank needs all of it.
    if (shape.latent > 0 && request.mla == MlaPolicy::compressed) return shape.latent;
    auto const heads = request.parallel.tp == 1
                           ? shape.kv_heads
                           : split_kv_heads(shape.heads, shape.kv_heads, request.parallel.tp, tp_rank).size();
    return heads * (shape.key_dim + shape.value_dim);
}

[[nodiscard]] constexpr std::int64_t cached_tokens(AttentionShape const& shape, EstimateRequest const& request,
                                                   std::int64_t context) {
    if (shape.window <= 0 || request.window == WindowPolicy::full) return context;
    return context < shape.window ? context : shape.window;
}

}  // namespace detail

/// The key-value cache of one layer that runs `body`, on the given tensor-parallel rank (rank 0 holds the most). A layer that
/// sees a window holds min(context, window) tokens without padding; cross-attention holds as many encoder tokens as context.
[[nodiscard]] constexpr Bytes kv_cache_bytes(BlockBody const& body, EstimateRequest const& request, ModelConfig const& config,
                                             std::int64_t tp_rank = 0) {
    auto const context = context_of(request, config);
    auto const width = bits(kv_dtype_of(request, config));
    Bytes total{0};
    for (auto const& op : body.operations()) {
        if (op.kind != OpKind::attention) continue;
        auto const elements = detail::cached_elements(op.attention, request, tp_rank);
        total += Bytes{ceil_divide(request.batch * detail::cached_tokens(op.attention, request, context) * elements * width, 8)};
    }
    return total;
}

/// What one more token of one sequence adds to the whole cache where no window limits it, over all layers of one replica
/// without tensor parallelism.
[[nodiscard]] constexpr Bytes kv_bytes_per_token(BlockProgram const& program, EstimateRequest request, ModelConfig const& config) {
    request.parallel = {};
    auto const width = bits(kv_dtype_of(request, config));
    std::int64_t total_bits = 0;
    for (auto const& block : program.blocks()) {
        for (auto const& op : program.body(block).operations()) {
            if (op.kind != OpKind::attention) continue;
            total_bits += block.count * detail::cached_elements(op.attention, request, 0) * width;
        }
    }
    return Bytes{ceil_divide(total_bits, 8)};
}

/// The same for a model.
[[nodiscard]] constexpr Bytes kv_bytes_per_token(Model const& model, EstimateRequest const& request) {
    return kv_bytes_per_token(model.program, request, model.config);
}

}  // namespace shardwise::inline v0
