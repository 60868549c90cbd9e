// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/routes.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/parallel/expert_parallel.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/session/chosen_activations.hpp>
#include <shardwise/session/plan_stages.hpp>
#include <shardwise/session/rank_communicator.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/token_chooser.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Which share of a model a rank of a run has.
struct RankShare {
    RankShare(RunOptions const& options, std::int32_t rank)
        : stage(rank % (options.tp * options.pp) / options.tp),
          place{options.tp, rank % options.tp},
          experts{options.ep, rank / (options.tp * options.pp)} {}

    std::int32_t stage;
    TensorPlace place;
    TensorPlace experts;
};

/// What a rank will hold, the groups that it adds up with apart.
struct RankPrediction {
    Bytes own{};
    /// Its session's part of that.
    Bytes session{};
    /// What collectives move, and how much less the rest is without it.
    Bytes values{};
    Bytes less_apart{};
    /// Of a rank on a device, in the host's memory.
    Bytes pinned{};
};

/// Errors  those of predict_memory; size_overflow
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<RankPrediction> predict_rank(Model const& model, FormatOf const& formats,
                                                  RunOptions const& options, ExecutorLimits const& limits, IsaLevel isa,
                                                  RankShare const& share, StageBlocks const& blocks) {
    auto const held = predict_memory<Backend, Policy>(model, formats, share.place, limits, isa, share.experts, blocks);
    if (!held) return held.error();
    auto const beside = TokenChooser<Backend>::bytes_for(limits, model.config.vocab_size);
    if (!beside) return beside.error();
    RankPrediction out{.own = held->total() + *beside,
                       .session = *beside,
                       .values = held->activations,
                       .less_apart = held->less_apart(),
                       .pinned = held->pinned};
    if constexpr (!HasHostMemory<Backend>) {
        auto const pinned = TokenChooser<Backend>::pinned_for(limits, model.config.vocab_size);
        if (!pinned) return pinned.error();
        out.pinned += *pinned;
    }
    if (options.ep == 1) return out;
    using Rows = ExpertParallel<Backend, typename RankCommunicator<Backend>::Type>;
    auto const shape = exchanged_rows(model.config, limits);
    auto const own = static_cast<std::int32_t>(share.experts.rank);
    auto const rows = Rows::bytes_for(shape, options.ep, own);
    if (!rows) return rows.error();
    out.own += *rows;
    if constexpr (!HasHostMemory<Backend>) {
        auto const pinned = Rows::pinned_for(shape, options.ep, own);
        if (!pinned) return pinned.error();
        out.pinned += *pinned;
    }
    return out;
}

}  // namespace detail

/// What each rank of a run on devices, of threads or of processes, will take of its device: what RunMemory::predicted will be. Nothing of
/// a rank on the processor. Activations lie in what the run would choose, whatever the limits say. Only headers of the files are read.
///
/// Errors  as predict_memory; those of plan_stages and of opening the files
template <ComputeBackend Backend>
[[nodiscard]] Result<std::vector<Bytes>> predict_on_devices(OpenCheckpoint& files, Model const& model,
                                                            ExecutorLimits const& limits, RunOptions const& options,
                                                            bool are_threads = true) {
    auto const stages = plan_stages(model, options);
    if (!stages) return stages.error();
    auto const parameters = StoredParameters::open(files, model);
    if (!parameters) return parameters.error();
    auto const formats = formats_of(*parameters, options.load);
    auto own = limits;
    own.activations = detail::chosen_activations<Backend>(model, options);
    std::vector<Bytes> ranks;
    for (std::int32_t rank = 0; rank < options.ranks(); ++rank) {
        if (options.devices.is_processor(rank)) {
            ranks.emplace_back(0);
            continue;
        }
        detail::RankShare const share(options, rank);
        auto const& blocks = (*stages)[static_cast<std::size_t>(share.stage)];
        // Devices hold the same whatever the processor's instructions are.
        auto const held =
            options.is_deterministic
                ? detail::predict_rank<Backend, Deterministic>(model, formats, options, own, IsaLevel::portable, share,
                                                               blocks)
                : detail::predict_rank<Backend, Fast>(model, formats, options, own, IsaLevel::portable, share, blocks);
        if (!held) return held.error();
        ranks.push_back(held->own + detail::RankCommunicator<Backend>::predict(options, are_threads));
    }
    return ranks;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
