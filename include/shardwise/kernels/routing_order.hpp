// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which way the order of experts' rows leads.
enum class RoutingOrder : std::uint8_t { token_of_row, row_of_pair };

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
