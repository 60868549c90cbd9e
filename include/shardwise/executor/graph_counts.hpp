// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How often steps were taken down as graphs, and launched as such.
struct GraphCounts {
    std::int64_t captured = 0;
    std::int64_t replayed = 0;
    /// Why steps run without; empty where nothing stood against it.
    std::string reason{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
