// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/activation_kind.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An activation as its kernel takes it; `up` is null where it gates nothing.
template <class T>
struct ActivationCall {
    T const* in;
    std::int64_t in_row;
    T const* up;
    std::int64_t up_row;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    ActivationKind kind;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
