// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/executor/check_kernels.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/load_options.hpp>
#include <shardwise/executor/model_reach.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/executor/routes.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/kernels/device/compiled_kernels.hpp>
#include <shardwise/model/check_model.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a rank is asked of a model, before it loads anything.
///
/// Errors  those of check_model, check_limits, check_activations, check_expert_place and check_load_options; unsupported for scores
///         of labels that are not executed; those of check_device_code and check_linked_kernels, unless they were asked already
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<> check_rank([[maybe_unused]] RankHome<Backend> const& rank, Model const& model,
                                  StoredParameters const& parameters, TensorPlace place, ExecutorLimits const& limits,
                                  TensorPlace experts, LoadOptions const& options, StageBlocks const& stage) {
    if (auto const checked = check_model(model); !checked) return checked;
    if (auto const checked = check_limits(limits, model); !checked) return checked;
    if (auto const checked = check_activations<Backend>(model, limits.activations); !checked) return checked;
    if (limits.has_head && !scores_labels(model)) {
        return Error{ErrorCode::unsupported}
            .in(model.config.model_class.view())
            .because("scores labels in a way that is not executed yet");
    }
    if (auto const checked = check_expert_place(experts, model.config); !checked) return checked;
    if (auto const checked = check_load_options(options); !checked) return checked;
    if (options.has_checked_kernels) return {};
    if constexpr (!HasHostMemory<Backend>) {
        if (auto const runs = check_device_code(rank.context); !runs) return runs;
    }
    return check_linked_kernels<Backend, Policy>(model, parameters, place, limits, experts, options, stage);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
