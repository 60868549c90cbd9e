// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/work.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A decoder as Megatron-LM's report of theoretical memory sees it.
///
/// Matrices of layers are sharded over tensor-parallel ranks, norms and routers are on each, biases do not count, the
/// vocabulary is not padded. Layers, with the final norm, are shared evenly among stages.
///
/// Source  Megatron-LM d98e8a6 (August 2026), megatron/training/theoretical_memory_usage.py
class MegatronReport {
public:
    constexpr explicit MegatronReport(Model const& model) : config_(model.config) {
        for (auto const& body : model.program.bodies()) {
            for (auto const& op : body.operations()) {
                if (op.kind == OpKind::activation && op.inputs[1] != no_value) is_gated_ = true;
                if (op.kind == OpKind::norm && is_layer_norm(op.norm().kind)) norm_size_ = 2;
                if (op.kind == OpKind::attention && (op.attention().is_cross || !op.attention().is_causal))
                    is_decoder_ = false;
                if (kept_heads(op).state > 0) is_decoder_ = false;
            }
        }
        for (std::int64_t layer = 0; layer < config_.layers; ++layer)
            sparse_layers_ += config_.experts > 0 && !config_.dense_layers.contains(layer) ? 1 : 0;
    }

    /// Refuses what the report has no number for.
    ///
    /// Errors  unsupported
    [[nodiscard]] constexpr Result<> check(Parallelism const& parallel) const {
        if (!is_decoder_ || config_.layers < 1) {
            return Error{ErrorCode::unsupported}
                .at("convention")
                .because("is Megatron-LM's report, which counts decoders only, of attentions and MLPs")
                .fix("use --convention megatron-paper or shardwise");
        }
        if (parallel.ep > 1) {
            return Error{ErrorCode::unsupported}
                .at("ep")
                .because("shards experts in a way of its own in Megatron-LM's report")
                .fix("use --ep 1, or --convention shardwise");
        }
        return {};
    }

    /// Stages of equally many layers; where they do not divide, the first ones have one more.
    [[nodiscard]] static constexpr List<std::int64_t> stages(std::int64_t layers, std::int64_t pp) {
        List<std::int64_t> begins;
        for (std::int64_t stage = 0; stage <= pp; ++stage) {
            auto const longer = stage < layers % pp ? stage : layers % pp;
            begins.push_back(stage * (layers / pp) + longer);
        }
        return begins;
    }

    /// Parameters of a rank of stage `stage` that has `layers` layers; an output layer is on the last stage, a tied one
    /// too, and on the only stage once.
    [[nodiscard]] constexpr std::int64_t parameters(std::int64_t layers, std::int64_t stage,
                                                    Parallelism const& parallel) const {
        auto const hidden = config_.hidden_size;
        auto const factor = is_gated_ ? 3 : 2;
        auto const dense_layers = config_.layers - sparse_layers_;
        auto const norms = 2 * hidden * norm_size_;
        auto const shared = config_.shared_expert_intermediate_size;
        auto const expert = factor * hidden * config_.expert_intermediate_size * config_.experts;
        auto const sharded = config_.layers * attention() + dense_layers * factor * hidden * config_.intermediate_size +
                             sparse_layers_ * (factor * hidden * shared + expert);
        auto const replicated =
            config_.layers * norms + sparse_layers_ * hidden * config_.experts + hidden * norm_size_;
        bool const is_only = parallel.pp == 1;
        auto const tables =
            is_only ? (config_.tie_word_embeddings ? 1 : 2) : (stage == 0 || stage + 1 == parallel.pp ? 1 : 0);
        auto const share = static_cast<double>(layers) / static_cast<double>(config_.layers);
        auto const tp = static_cast<double>(parallel.tp);
        auto const sum =
            (share * static_cast<double>(sharded) + static_cast<double>(tables * hidden * config_.vocab_size)) / tp +
            share * static_cast<double>(replicated);
        return rounded(sum);
    }

    /// Activations of a rank of stage `stage` with `layers` layers, `in_flight` micro-batches of b sequences of s tokens
    /// under way: s * b * h * (18 + 4 * ffn / h) for each layer, sharded; for the first stage the embedding's input and
    /// dropout, for the only one the output layer and the loss. Without sequence parallelism and selective recomputation,
    /// whatever else is recomputed, s * b * h * (10 + 24 / t) and a margin of 5 %.
    [[nodiscard]] constexpr Bytes activations(std::int64_t s, std::int64_t b, std::int64_t layers, std::int64_t stage,
                                              std::int64_t in_flight, Parallelism const& parallel,
                                              Recompute recompute) const {
        auto const sb = static_cast<double>(s) * static_cast<double>(b);
        auto const h = static_cast<double>(config_.hidden_size);
        auto const tp = static_cast<double>(parallel.tp);
        auto const micro_batches = static_cast<double>(in_flight);
        auto const vocabulary = static_cast<double>(config_.vocab_size);
        auto const embedding = stage == 0 ? sb * (8.0 + h) : 0.0;
        if (parallel.sequence_parallel && recompute == Recompute::selective) {
            auto const layer = sb * (18.0 * h + 4.0 * static_cast<double>(config_.intermediate_size));
            auto const loss = parallel.pp == 1 ? 4.0 * sb * (h + vocabulary) : 0.0;
            return Bytes{rounded((micro_batches * (static_cast<double>(layers) * layer + embedding) + loss) / tp)};
        }
        auto const layer = sb * h * (10.0 + 24.0 / tp);
        auto const output = parallel.pp == 1 ? 2.0 * sb * (vocabulary / tp + h) : 0.0;
        return Bytes{rounded(1.05 * (micro_batches * (static_cast<double>(layers) * layer + embedding) + output))};
    }

private:
    static constexpr std::int64_t rounded(double value) { return static_cast<std::int64_t>(value + 0.5); }

    /// The matrices of one layer's attention; of latent attention with the norms of its latents.
    [[nodiscard]] constexpr std::int64_t attention() const {
        auto const hidden = config_.hidden_size;
        auto const heads = config_.heads;
        if (config_.kv_lora_rank == 0) return 2 * hidden * config_.head_dim * (heads + config_.kv_heads);
        auto const nope = config_.qk_nope_head_dim;
        auto const rope = config_.qk_rope_head_dim;
        auto const queries = config_.q_lora_rank == 0
                                 ? hidden * heads * (nope + rope)
                                 : config_.q_lora_rank * (hidden + heads * (nope + rope) + norm_size_);
        return queries + config_.kv_lora_rank * (hidden + heads * (nope + config_.v_head_dim) + norm_size_) +
               hidden * rope + heads * config_.v_head_dim * hidden;
    }

    ModelConfig const& config_;
    bool is_gated_ = false;
    bool is_decoder_ = true;
    std::int64_t norm_size_ = 1;
    std::int64_t sparse_layers_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
