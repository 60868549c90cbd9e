// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/check_request.hpp>
#include <shardwise/memory/check_sizes.hpp>
#include <shardwise/memory/model_parts.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Refuses requests that no run of the model could serve, or whose sizes cannot be computed: what every question about memory
/// and placement asks first.
///
/// Errors  as check_request and check_sizes
[[nodiscard]] constexpr Result<> check_request(Model const& model, EstimateRequest const& request, std::int64_t layers) {
    if (auto const checked = check_request(request, model.config, layers); !checked) return checked.error();
    return check_sizes(model, request);
}

/// The same for who has not counted the model's layers.
[[nodiscard]] constexpr Result<> check_request(Model const& model, EstimateRequest const& request) {
    // Only a pipeline needs their number.
    auto const layers = request.parallel.pp > 1 ? find_parts(model, depends_on_layer(request)).layers : 1;
    return check_request(model, request, layers);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
