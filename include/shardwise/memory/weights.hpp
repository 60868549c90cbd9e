#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/memory/shard.hpp>

#include <cstdint>

namespace shardwise::inline v0 {

/// Where in the model a tensor stands; mixtures of quantisation types choose by it.
struct LayerPosition {
    /// The layer's number; -1 outside of the layers.
    std::int64_t layer = -1;
    std::int64_t layers = 0;
    /// True where the head is the embedding's tensor.
    bool is_head_tied = false;
};

/// True where a tensor's size depends on the layer it is in: mixtures by layer. Otherwise one layer of a run stands for all.
[[nodiscard]] constexpr bool depends_on_layer(EstimateRequest const&) { return false; }

/// The memory of one tensor: recast by --dtype where it is floating, else packed by the quantisation scheme, else as stored.
/// Buffers that checkpoints do not store take none: they are computed, and engines hold them in their own form.
[[nodiscard]] constexpr Bytes weight_bytes(Tensor const& tensor, LayerPosition const&, EstimateRequest const& request) {
    if (tensor.kind == TensorKind::transient_buffer) return Bytes{0};
    if (request.dtype && traits(tensor.dtype).is_floating) {
        return Bytes{ceil_divide(tensor.shape.elements() * bits(*request.dtype), 8)};
    }
    return tensor.bytes();
}

/// The memory of one rank's share of a tensor.
[[nodiscard]] constexpr Bytes shard_bytes(Tensor const& tensor, LayerPosition const& position, EstimateRequest const& request,
                                          RankPlace const& place) {
    if (request.parallel.tp == 1 && request.parallel.ep == 1) return weight_bytes(tensor, position, request);
    return weight_bytes(shard_of(tensor, request.parallel, place), position, request);
}

}  // namespace shardwise::inline v0
