// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/step_places.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A storing of a step's rows as its kernel takes it.
template <class T, class Cache>
struct StoreStepCall {
    StepPlaces places;
    T const* in;
    std::int64_t in_row;
    Cache* memory;
    std::int64_t memory_row;
    /// Of bytes.
    float* scales;
    std::int64_t scale_row;
    std::int64_t rows;
    std::int64_t width;
    /// Of bytes: heads that have a scale each, and their width.
    std::int32_t heads;
    std::int64_t head_width;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
