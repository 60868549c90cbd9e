// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// out = a * b or out += a * b; a factor's element (i, j) lies at data[i * row + j * column], so a transposed one is no case.
struct GemmCall {
    struct Factor {
        void const* data;
        std::int64_t row;
        std::int64_t column;
        bool is_transposed;
    };
    Factor a;
    Factor b;
    void* out;
    std::int64_t out_row;
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
    bool accumulates;
    /// Float, or as the factors are.
    RowElement out_element = RowElement::f32;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
