// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/session/run_options.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What activations lie in between a back end's kernels: what is asked for, else bf16 on a device that has kernels for it, else f32.
template <ComputeBackend Backend>
[[nodiscard]] Dtype chosen_activations(Model const& model, Optional<Dtype> asked) {
    if (asked) return *asked;
    return check_activations<Backend>(model, Dtype::bf16) ? Dtype::bf16 : Dtype::f32;
}

/// The same for all ranks of a run: f32 where one computes on the processor.
template <ComputeBackend Backend>
[[nodiscard]] Dtype chosen_activations(Model const& model, RunOptions const& options) {
    if (options.activations) return *options.activations;
    for (std::int32_t rank = 0; rank < options.ranks(); ++rank)
        if (options.devices.is_processor(rank)) return Dtype::f32;
    return chosen_activations<Backend>(model, options.activations);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
