// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/memory/request.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Memory by what it is for.
struct MemoryTerms {
    Bytes weights{};
    Bytes kv_cache{};
    Bytes activations{};
    Bytes gradients{};
    Bytes optimizer{};
    /// The runtime's own memory, and communication buffers.
    Bytes overhead{};

    [[nodiscard]] constexpr Bytes total() const {
        return weights + kv_cache + activations + gradients + optimizer + overhead;
    }
    constexpr MemoryTerms& operator+=(MemoryTerms const& other) {
        weights += other.weights;
        kv_cache += other.kv_cache;
        activations += other.activations;
        gradients += other.gradients;
        optimizer += other.optimizer;
        overhead += other.overhead;
        return *this;
    }
    friend constexpr bool operator==(MemoryTerms const&, MemoryTerms const&) = default;
};

/// What one rank holds.
struct DeviceEstimate {
    RankPlace place{};
    MemoryTerms terms{};
    /// Of the overhead, the buffers for talking to other ranks.
    Bytes communication{};
    /// The activations of both phases, and of the larger one `terms.activations`; in training both are the step's.
    ActivationPeaks phases{};
    /// Training states that live in host memory.
    Bytes host{};
    std::int64_t parameters = 0;
    /// The layers of its pipeline stage.
    std::int64_t first_layer = 0;
    std::int64_t layer_count = 0;

    [[nodiscard]] constexpr Bytes total() const { return terms.total(); }
};

/// What a part of the model takes, each layer of a run by itself and without parallelism.
struct ModuleEstimate {
    /// The module's full name; of a run, the list's: layer i is "<path>.<first + i>".
    FixedText<96> path;
    ModuleRole role = ModuleRole::none;
    bool is_numbered = false;
    std::int64_t first = 0;
    std::int64_t count = 1;
    /// Of one layer of the run; activations are the peak while it runs, in training what it keeps for the backward
    /// pass.
    Bytes weights{};
    Bytes kv_cache{};
    Bytes activations{};
    Bytes gradients{};
    Bytes optimizer{};
};

/// Something that a number rests on, or that the reader should know.
enum class Assumption : std::uint8_t {
    context_not_given,
    context_beyond_model,
    unknown_program,
    runtime_overhead,
    transient_buffers,
    whole_prefill,
    chunked_prefill,
    worst_case_routing,
    replicated_over_expert_ranks,
    tied_tensor_copied,
    uneven_tensor_split,
    packed_shares,
    mixed_precision_copy,
    momentum,
    full_pipeline,
    model_states_only,
    blocked_attention,
    eager_attention,
    attention_again,
    saved_by_operators,
    fp32_norms,
    megatron_report,
    megatron_formula,
    one_node,
    working_layer,
    counted_as_trained,
    batch_per_replica,
};

/// True for what may surprise, as against what merely explains.
[[nodiscard]] constexpr bool is_warning(Assumption assumption) {
    return assumption == Assumption::context_beyond_model || assumption == Assumption::unknown_program ||
           assumption == Assumption::tied_tensor_copied;
}

/// The sentence for an assumption.
[[nodiscard]] constexpr std::string_view text_of(Assumption assumption) {
    switch (assumption) {
        case Assumption::context_not_given: return "no context was given: the model's maximum, at most 4096 tokens";
        case Assumption::context_beyond_model: return "the context is longer than the model was made for";
        case Assumption::unknown_program:
            return "nothing is known of what this architecture computes: cache and activations are not counted";
        case Assumption::runtime_overhead: return "each device is a GPU whose runtime takes 512 MiB";
        case Assumption::transient_buffers:
            return "buffers that checkpoints do not store (rotary frequencies, masks) are computed and count nothing";
        case Assumption::whole_prefill: return "the whole prompt is computed in one pass";
        case Assumption::chunked_prefill:
            return "prompts are computed in chunks: at most prefill_chunk tokens of all sequences together";
        case Assumption::worst_case_routing: return "activations allow for every token choosing this rank's experts";
        case Assumption::replicated_over_expert_ranks:
            return "expert-parallel ranks shard the experts and hold everything else whole";
        case Assumption::tied_tensor_copied:
            return "a tied tensor is copied, because its names are on different stages";
        case Assumption::uneven_tensor_split:
            return "heads or columns do not divide by tp: the first ranks hold one unit more";
        case Assumption::packed_shares:
            return "a rank's share of a packed tensor is its share of the elements, rounded up";
        case Assumption::mixed_precision_copy:
            return "16-bit training keeps an fp32 copy of the weights with the optimizer";
        case Assumption::momentum: return "SGD keeps an fp32 momentum";
        case Assumption::full_pipeline:
            return "one-forward-one-backward: stage r of p keeps p - r micro-batches of this batch";
        case Assumption::model_states_only:
            return "this convention counts model states only: no activations, cache or overhead";
        case Assumption::blocked_attention:
            return "attention is blocked: of its probabilities the log-sum-exp is kept";
        case Assumption::eager_attention: return "attention is eager: its matrix of probabilities is kept";
        case Assumption::attention_again:
            return "attention is computed again in the backward pass from the queries, keys and values that are kept";
        case Assumption::saved_by_operators:
            return "layers keep what PyTorch's operators keep, norms their input without a copy in fp32; no dropout";
        case Assumption::fp32_norms:
            return "layers keep what PyTorch's operators keep, norms the copies in fp32 that transformers makes; no dropout";
        case Assumption::megatron_report:
            return "Megatron-LM's report: even stages, no biases, no padding of the vocabulary; attention is flash attention";
        case Assumption::megatron_formula:
            return "activations by the table of Megatron's paper for transformer layers at 16 bits";
        case Assumption::one_node: return "all ranks are in one node";
        case Assumption::working_layer:
            return "the largest layer is held whole while it is computed, the next one arrives meanwhile";
        case Assumption::counted_as_trained:
            return "devices have what shardwise train allocates on the host in its own precision; overhead is the copy that a checkpoint "
                   "is written from beside steps";
        case Assumption::batch_per_replica: return "the batch is that of one data-parallel replica";
    }
    return {};
}

/// The assumptions of one estimate, each once.
class AssumptionSet {
public:
    static constexpr std::size_t capacity = static_cast<std::size_t>(Assumption::batch_per_replica) + 1;

    constexpr void insert(Assumption assumption) { held_[size_++] = assumption; }
    [[nodiscard]] constexpr Assumption const* begin() const { return held_.data(); }
    [[nodiscard]] constexpr Assumption const* end() const { return held_.data() + size_; }
    [[nodiscard]] constexpr std::size_t size() const { return size_; }

private:
    std::array<Assumption, capacity> held_{};
    std::size_t size_ = 0;
};

/// What a model takes on the devices that run it.
struct MemoryEstimate {
    /// Sums over all ranks.
    MemoryTerms terms{};
    Bytes total{};
    /// Training states in host memory, over all ranks.
    Bytes host{};
    /// Every rank: tensor-parallel ranks next to each other, then expert-, data- and pipeline-parallel ones.
    List<DeviceEstimate> devices;
    List<ModuleEstimate> modules;
    AssumptionSet assumptions;
    /// Trained elements of the model, tied ones once, and those that compute one token.
    std::int64_t parameters = 0;
    std::int64_t active_parameters = 0;
    Bytes kv_bytes_per_token{};
    /// The bytes that buffers outside of checkpoints would take.
    Bytes transient_buffers{};
    std::int64_t context = 0;

    /// The rank that needs most.
    [[nodiscard]] constexpr DeviceEstimate const& largest_device() const {
        std::size_t best = 0;
        for (std::size_t i = 1; i < devices.size(); ++i) {
            if (devices[best].total() < devices[i].total()) best = i;
        }
        return devices[best];
    }
    [[nodiscard]] constexpr bool has(Assumption assumption) const {
        for (auto const held : assumptions) {
            if (held == assumption) return true;
        }
        return false;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
