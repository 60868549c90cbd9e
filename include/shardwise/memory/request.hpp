// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_id.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/quant/scheme.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What the cache of a sliding-window layer holds: the window, or the whole context (engines without a rolling cache).
enum class WindowPolicy : std::uint8_t { window, full };
/// What the cache of multi-head latent attention holds: the latent, in which queries then attend, or the keys and values
/// made from it.
enum class MlaPolicy : std::uint8_t { compressed, full };

enum class OptimizerKind : std::uint8_t { adam, sgd, adam8bit };
/// What of a training run lives in host memory.
enum class Offload : std::uint8_t { none, optimizer, all };
/// Which activations the backward pass computes again instead of keeping them.
enum class Recompute : std::uint8_t { none, selective, full };
/// How a training run computes attention: in blocks that keep the log-sum-exp, or with its matrix of probabilities.
enum class AttentionKind : std::uint8_t { blocked, eager };
/// Whose accounting an estimate follows: our own, or one that users know. `transformers` is ours with the fp32 copies
/// that its norms keep; `megatron` is Megatron-LM's report of theoretical memory, `megatron_paper` the table of its paper.
enum class MemoryConvention : std::uint8_t { shardwise, transformers, deepspeed, megatron, megatron_paper, zero };

/// True for conventions that count all that a rank takes: what blocks keep, buffers and the runtime beside states.
[[nodiscard]] constexpr bool counts_everything(MemoryConvention convention) {
    return convention == MemoryConvention::shardwise || convention == MemoryConvention::transformers;
}

/// How a training run keeps its state.
struct TrainingPlan {
    OptimizerKind optimizer = OptimizerKind::adam;
    /// The stage of ZeRO: 1 shards optimizer states to the data-parallel ranks, 2 gradients too, 3 parameters too.
    std::int32_t zero = 0;
    Offload offload = Offload::none;
    Recompute recompute = Recompute::none;
    AttentionKind attention = AttentionKind::blocked;
    MemoryConvention convention = MemoryConvention::shardwise;
    /// The model has a low-rank adapter in it, as adapted_model makes one: the adapter's halves are trained, in fp32, and all else
    /// stays as it is, in the bytes that the tree says.
    bool has_adapter = false;
};

/// The degrees of parallelism; their product is the number of ranks.
struct Parallelism {
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    std::int64_t ep = 1;
    std::int64_t dp = 1;
    bool sequence_parallel = false;

    [[nodiscard]] constexpr std::int64_t ranks() const { return tp * pp * ep * dp; }
};

/// The place of one rank in each of the parallel groups.
struct RankPlace {
    std::int64_t tp = 0;
    std::int64_t pp = 0;
    std::int64_t ep = 0;
    std::int64_t dp = 0;

    friend constexpr bool operator==(RankPlace const&, RankPlace const&) = default;
};

/// The tokens of all sequences that engines compute at a time while they read prompts.
///
/// Source  vLLM 0.10, vllm/engine/arg_utils.py (max_num_batched_tokens of servers on large devices)
inline constexpr std::int64_t default_prefill_chunk = 8192;

/// What is to be run: everything an estimate depends on besides the model.
struct EstimateRequest {
    /// Recasts floating tensors, none of them packed; nothing: as the model stores them.
    Optional<Dtype> dtype{};
    /// Packs weights; what it leaves alone follows `dtype`. Nothing: as published, where `dtype` is not given either.
    Optional<QuantScheme> quant{};
    Optional<Dtype> kv_dtype{};
    /// Sequences of one data-parallel replica.
    std::int64_t batch = 1;
    /// Tokens of each sequence; 0: the model's maximum, at most 4096.
    std::int64_t context = 0;
    WindowPolicy window = WindowPolicy::window;
    MlaPolicy mla = MlaPolicy::compressed;
    Parallelism parallel{};
    Optional<TrainingPlan> training{};
    /// The micro-batches that the batch is cut into on its way through the stages; 0: it passes whole, and in training each
    /// stage holds as many such batches as its pipeline can fill.
    std::int64_t micro_batches = 0;
    /// What kind of device the ranks run on: what their runtime takes before the first tensor.
    DeviceClass device = DeviceClass::gpu;
    /// The most tokens of all sequences together that one pass computes; 0: a whole prompt of every sequence. Training,
    /// and models whose tokens attend both ways, compute all at once whatever this says.
    std::int64_t prefill_chunk = default_prefill_chunk;
    /// The share of each device's memory that maps and plans may use (Device::usable): above 0, at most 1. Estimates do not
    /// depend on it.
    double utilization = default_utilization;
};

/// The request of one micro-batch: what activations and messages are made of at a time.
[[nodiscard]] constexpr EstimateRequest micro_batch_of(EstimateRequest request) {
    if (request.micro_batches > 1) {
        request.batch = request.batch / request.micro_batches + (request.batch % request.micro_batches != 0 ? 1 : 0);
    }
    return request;
}

/// The context that absent --context means, at most.
inline constexpr std::int64_t default_context = 4096;

/// The tokens of each sequence: the request's, else the model's maximum but no more than 4096.
[[nodiscard]] constexpr std::int64_t context_of(EstimateRequest const& request, ModelConfig const& config) {
    if (request.context > 0) return request.context;
    return config.max_positions > 0 && config.max_positions < default_context ? config.max_positions : default_context;
}

/// The request with the packing in which the model is published, where it names neither a dtype nor a packing of its own.
/// Training keeps plain numbers: there the config's dtype stands.
[[nodiscard]] constexpr EstimateRequest as_published(EstimateRequest request, ModelConfig const& config) {
    if (!request.quant && !request.dtype && !request.training) request.quant = config.quant;
    return request;
}

/// True where the request packs weights, so that their width says nothing about activations; a weight of plain integers
/// means nothing without scales and counts as packed.
[[nodiscard]] constexpr bool is_quantised(EstimateRequest const& request) {
    return request.quant || (request.dtype && !traits(*request.dtype).is_floating);
}

/// Training that leaves the model's own weights as they are.
[[nodiscard]] constexpr bool trains_adapter(EstimateRequest const& request) {
    return request.training && request.training->has_adapter;
}

namespace detail {

/// `dtype` where products run in it directly, else 16 bits.
[[nodiscard]] constexpr Dtype compute_dtype(Dtype dtype) {
    return traits(dtype).is_floating && bits(dtype) >= 16 && bits(dtype) <= 64 ? dtype : Dtype::bf16;
}

}  // namespace detail

/// The element type of activations: the request's where products run in it directly, else the config's, 16 bits for
/// quantised models.
[[nodiscard]] constexpr Dtype activation_dtype_of(EstimateRequest const& request, ModelConfig const& config) {
    auto const own = config.dtype_or(Dtype::f32);
    if (is_quantised(request)) return bits(own) == 16 ? detail::compute_dtype(own) : Dtype::bf16;
    return detail::compute_dtype(request.dtype.value_or(own));
}

/// The element type of the key-value cache: --kv-dtype, else --dtype, else the config's, 16 bits for quantised models.
[[nodiscard]] constexpr Dtype kv_dtype_of(EstimateRequest const& request, ModelConfig const& config) {
    if (request.kv_dtype) return *request.kv_dtype;
    if (request.dtype && !is_quantised(request)) return *request.dtype;
    return activation_dtype_of(request, config);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
