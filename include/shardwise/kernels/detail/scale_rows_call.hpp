// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/activation_kind.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A scaling of rows as its kernel takes it.
template <class T>
struct ScaleRowsCall {
    T const* gate;
    std::int64_t gate_row;
    T const* in;
    std::int64_t in_row;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    ActivationKind kind;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
