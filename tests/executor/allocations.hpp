// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shardwise::testing {

/// How often the calling thread has asked the allocator for memory.
[[nodiscard]] std::int64_t allocations_of_thread();

}  // namespace shardwise::testing
