// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A search for each row's largest logit as its kernel takes it: keys or ids come of it, whichever is not null. Where neither is,
/// ids come of keys.
struct ArgMaxCall {
    float const* logits;
    std::int64_t row;
    std::int64_t rows;
    std::int64_t width;
    /// That of a row's first logit.
    std::int64_t first_id;
    std::int64_t* keys;
    std::int32_t* ids;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
