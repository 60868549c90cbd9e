// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/cost/cost_terms.hpp>
#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/request.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a parallel plan makes small or large.
enum class PlanObjective : std::uint8_t {
    latency,     // the time of a step: of a token, of an update in training, of whole sequences in encoders
    throughput,  // tokens per second of all devices together
    devices,     // the fewest devices that hold it; of those, the least latency
};

[[nodiscard]] constexpr std::string_view name_of(PlanObjective objective) {
    switch (objective) {
        case PlanObjective::latency:
            return "latency";
        case PlanObjective::throughput:
            return "throughput";
        case PlanObjective::devices:
            return "devices";
    }
    return "unknown";
}

/// Degrees that a plan must have; those that are not given are searched.
struct PlanPins {
    Optional<std::int64_t> tp{};
    Optional<std::int64_t> pp{};
    Optional<std::int64_t> dp{};
    Optional<std::int64_t> ep{};
    /// ZeRO's stage, in training.
    Optional<std::int32_t> zero{};
    /// In inference the batch is then cut without a pipeline too.
    Optional<std::int64_t> micro_batches{};
};

/// How a job is cut.
struct PlanDegrees {
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    std::int64_t dp = 1;
    std::int64_t ep = 1;
    /// ZeRO's stage; 0 in inference.
    std::int32_t zero = 0;
    /// The micro-batches that a replica's batch is cut into on its way through the stages.
    std::int64_t micro_batches = 1;

    [[nodiscard]] constexpr std::int64_t ranks() const { return tp * pp * dp * ep; }
    friend constexpr bool operator==(PlanDegrees const&, PlanDegrees const&) = default;
};

/// Degrees that a search keeps to beside its pins: those that a trainer runs.
struct SearchLimits {
    /// Tensor-parallel degrees, ascending; empty: all.
    List<std::int64_t> tp{};
    /// The most stages and expert-parallel ranks; 0: as many as there may be.
    std::int64_t max_pp = 0;
    std::int64_t max_ep = 0;

    [[nodiscard]] bool has_tp(std::int64_t degree) const {
        for (auto const known : tp) {
            if (known == degree) return true;
        }
        return tp.empty();
    }
    [[nodiscard]] bool has(PlanDegrees const& degrees) const {
        bool const is_long = max_pp > 0 && degrees.pp > max_pp;
        return has_tp(degrees.tp) && !is_long && (max_ep == 0 || degrees.ep <= max_ep);
    }
};

/// What is to be planned. The degrees of `estimate.parallel` are what is searched and are ignored; so are, in training, its
/// sequence parallelism and what `estimate.training` computes again, unless they are fixed, and ZeRO's stage;
/// `estimate.batch` counts the sequences of the whole job, split over data- and expert-parallel ranks; 0 leaves it to a
/// search for throughput in inference, and is the smallest that the pins allow elsewhere.
struct PlanRequest {
    EstimateRequest estimate{};
    PlanObjective objective = PlanObjective::latency;
    /// The search keeps to these degrees.
    PlanPins pins{};
    SearchLimits limits{};
    /// The search keeps to even degrees (is_even): those that other engines run too.
    bool is_even = false;
    /// Training computes again what `estimate.training` says; else all three ways are tried.
    bool is_recompute_fixed = false;
    /// Training is sequence-parallel where `estimate.parallel` says so, and only there; else both are tried.
    bool is_sequence_parallel_fixed = false;
};

/// A pipeline stage: consecutive layers, with what stands before the first and after the last.
struct PlanStage {
    std::int64_t first_layer = 0;
    std::int64_t layer_count = 0;
    bool has_embedding = false;
    bool has_head = false;
    /// One micro-batch through this stage on its slowest rank; in training forward and backward.
    double seconds = 0.0;
};

/// One rank: where it sits in the groups, which device runs it, and what it holds there.
struct PlanRank {
    RankPlace place{};
    /// Its position in the topology's list of devices.
    std::int32_t device = 0;
    MemoryTerms terms{};
};

/// What a plan takes and gives.
struct PlanCost {
    /// Of one step: a decoded token of every sequence, one update in training, the whole sequences in a model that decodes
    /// nothing.
    CostTerms step{};
    /// Of the prompts of the whole batch where tokens are decoded; else nothing.
    CostTerms prefill{};
    /// Of all replicas together: decoded tokens, trained ones, or read ones.
    double tokens_per_second = 0.0;
};

/// A plan that was not chosen, the next best of its kind or the best even one, and what it loses.
struct PlanAlternative {
    PlanDegrees degrees{};
    /// As the plan's own.
    Recompute recompute = Recompute::none;
    bool is_sequence_parallel = false;
    /// Its degrees divide heads and experts (is_even).
    bool is_even = false;
    PlanCost cost{};
    /// The fullest rank.
    Bytes largest_rank{};
    /// How much worse its objective is: 0.25 is a quarter more time (or less throughput, or more devices).
    double loss = 0.0;
    /// Why it is worse, in words.
    std::string reason;
};

/// A model cut over the devices of a topology, with its reasons.
struct ParallelPlan {
    PlanDegrees degrees{};
    /// What training computes again, and whether activations are sharded along the sequence over tensor-parallel ranks:
    /// the request's, or what was chosen.
    Recompute recompute = Recompute::none;
    bool is_sequence_parallel = false;
    /// Its degrees divide heads and experts (is_even).
    bool is_even = false;
    /// The sequences of the whole job: the request's, or the ones that were chosen.
    std::int64_t batch = 1;
    List<PlanStage> stages;
    /// Tensor-parallel ranks next to each other, then expert-, data- and pipeline-parallel ones.
    List<PlanRank> ranks;
    PlanCost cost{};
    /// Why each degree is what it is: "tensor parallel stops at 8: the node's NVLink domain".
    List<std::string> reasons;
    List<PlanAlternative> alternatives;
    /// How many ways to cut there were, and how many of them were found not to fit; what could not have been better was
    /// not asked.
    std::int64_t examined = 0;
    std::int64_t too_large = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
