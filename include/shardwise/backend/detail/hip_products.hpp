// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/backend/detail/tiled_products.hpp>

#include <hip/hip_runtime_api.h>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The products of HIP where the build has no hipBLASLt.
class HipProducts : public TiledProducts<HipApi> {};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
