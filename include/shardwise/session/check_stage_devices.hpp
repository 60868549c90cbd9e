// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_options.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Checks that the ranks of each stage, who add up, compute on devices all or none, and that all have activations of one type.
///
/// Errors  invalid_argument with the stage; unsupported
[[nodiscard]] inline Result<> check_stage_devices(RunOptions const& options) {
    for (std::int32_t rank = 0; rank < options.ranks(); ++rank) {
        if (options.activations.value_or(Dtype::f32) != Dtype::f32 && options.devices.is_processor(rank)) {
            return Error{ErrorCode::unsupported}
                .in("activations")
                .because("are fp32 on the processor, which has ranks of this run")
                .fix("take fp32, or name devices for all ranks");
        }
        auto const first = rank - rank % options.tp;
        if (options.devices.is_processor(rank) == options.devices.is_processor(first)) continue;
        return Error{ErrorCode::invalid_argument}
            .in("devices")
            .at("stage " + std::to_string(first / options.tp))
            .because("has ranks on devices and ranks on the processor, which do not add up with each other")
            .fix("name the processor for all ranks of a stage, or for none");
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
