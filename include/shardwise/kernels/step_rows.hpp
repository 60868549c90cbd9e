// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/cached_rows.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The keys or the values that a step's queries see: a cache's memory, whose pages the step table lists, or the step's own rows.
///
/// Shapes  memory [rows of the cache, kv_heads * dim], of own rows [tokens or more, kv_heads * dim]; bytes have scales
///         [rows of the memory, kv_heads]
template <CacheElement Cache, class Backend>
struct StepRows {
    TensorView<Cache const, 2, Backend> memory;
    TensorView<float const, 2, Backend> scales{};
    /// Whose lists of pages; -1: a sequence's keys are the rows that it has in the step, as in an encoder.
    std::int64_t group = -1;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
